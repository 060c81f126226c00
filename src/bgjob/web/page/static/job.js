// One job: how it stands, what can be done with it, and its log, terminal or facts below.

import {
  actionsOf,
  attach,
  canType,
  downloadOf,
  isAlive,
  killJob,
  pauseJob,
  rerunJob,
  resumeJob,
  signalJob,
  SIGNALS,
} from "./actions.js";
import { Answer } from "./answer.js";
import { element, framed } from "./element.js";
import { icon, iconOf } from "./icons.js";
import { openMenu } from "./menu.js";
import { howItEnded, portsOf, targetTags, withNames } from "./row.js";
import { get, notThere } from "./wire.js";
import { duration, moment, short, soFar, state, title, took, when } from "./words.js";

const PARTS = {
  log: { name: "Log", open: () => import("./log.js") },
  terminal: { name: "Terminal", open: () => import("./terminal.js") },
  facts: { name: "Facts", open: () => import("./facts.js") },
};
const LONG_COMMAND = 160;

export function open(place, app, query) {
  return new JobView(place, app, query);
}

class JobView {
  constructor(place, app, query) {
    this.app = app;
    this.place = place;
    this.query = query;
    this.id = query.job;
    this.turn = 0;
    this.partShown = null; // its name
    this.shown = new Map(); // by part of the head: what it was made from
    this.draw = framed(() => this.drawNow());
    this.ends = [app.jobs.onchange((changed) => (changed === null || changed.has(this.id)) && this.draw())];
    this.ticking = setInterval(() => this.tick(), 1000);
    this.build();
    this.find();
    this.drawNow();
  }

  close() {
    clearInterval(this.ticking);
    for (const end of this.ends) end();
    this.closePart();
    this.isClosed = true;
  }

  // Another part of the same job has the same head.
  change(query) {
    if (query.job !== this.id || this.isGone) return false;
    this.query = query;
    this.openPart();
    return true;
  }

  key(event) {
    if (this.part?.key?.(event)) return true;
    const { row, app } = this;
    if (!row) return false;
    if (event.key === "l") app.go({ job: row.id, view: "log" });
    else if (event.key === "f") app.go({ job: row.id, view: "facts" });
    else if (event.key === "a") attach(app, row);
    else if (event.key === "x" && isAlive(row) && app.may("kill")) killJob(app, row);
    else if (event.key === "m") this.menu();
    else return false;
    return true;
  }

  // -- the head -----------------------------------------------------------------------------------

  build() {
    this.state = element("span", { class: "state" });
    this.name = element("h2", {});
    this.number = element("code", { class: "quiet", title: "The id of this job" });
    this.actions = element("div", { class: "actions" });
    this.brief = element("p", { class: "brief" });
    this.time = element("span", { class: "took" });
    this.command = element("div", { class: "whole-command" });
    this.parts = element("nav", { class: "parts", "aria-label": "Parts of this job" });
    this.below = element("div", { class: "part" });
    this.typing = element("div", { class: "typing" });
    this.head = element(
      "section",
      { class: "head", "aria-label": "This job" },
      element("div", { class: "first" }, this.state, this.name, this.number, this.actions),
      this.brief,
      this.command,
    );
    this.place.append(element("p", { class: "note" }, "Reading the job …"));
  }

  // The row may not be read yet, and has only the beginning of a long command.
  async find() {
    try {
      this.job = await get("/api/job", { job: this.id });
    } catch (problem) {
      if (this.isClosed) return;
      if (problem.status === 404) return this.gone("There is no such job", problem.message);
      return this.app.fail(problem);
    }
    if (this.isClosed) return;
    this.draw();
  }

  gone(heading, words) {
    this.isGone = true;
    this.closePart();
    this.place.replaceChildren(
      element(
        "section",
        { class: "note" },
        element("h2", {}, heading),
        element("p", {}, words),
        element("p", {}, element("a", { href: "/" }, "All jobs")),
      ),
    );
  }

  drawNow() {
    const row = this.app.jobs.rows.get(this.id);
    if (this.isClosed || this.isGone) return;
    if (!row && this.row) return this.gone("This job was removed", "Its output is gone, too.");
    if (!row) return;
    const isFirst = !this.row,
      before = this.row;
    this.row = row;
    if (isFirst) this.place.replaceChildren(this.head, this.parts, this.below, this.typing);
    if (row !== before) this.show(row);
    this.showCommand(this.job?.command ?? row.command);
    this.tick();
    if (isFirst) return this.openPart();
    this.part?.update?.();
  }

  // A row changes as often as its job prints. What can be clicked is made anew only if it looks otherwise.
  show(row) {
    this.state.className = `state ${iconOf(row)}`;
    this.state.replaceChildren(
      icon(iconOf(row)),
      element("span", {}, row.group === "asking" ? "waits for you" : state(row)),
    );
    this.name.textContent = title(row);
    this.name.classList.toggle("nameless", !row.name);
    this.number.textContent = short(row.id);
    this.showActions(row);
    this.showBrief(row);
    this.showParts(row);
    this.showLine();
  }

  showActions(row) {
    const { app } = this,
      mayKill = app.may("kill"),
      isRunning = isAlive(row) && row.group !== "queued" && !row.left;
    if (!this.isNew("actions", [row.group, row.phase, row.status, row.left])) return;
    const button = (name, act, className = "") =>
      element("button", { type: "button", class: className, onclick: () => act(app, this.row) }, name);
    const menuButton = (name, act) =>
      element(
        "button",
        {
          type: "button",
          "aria-haspopup": "menu",
          "aria-expanded": "false",
          onclick: (event) => act(event.currentTarget),
        },
        name,
        icon("fold"),
      );
    this.actions.replaceChildren(
      ...[
        mayKill &&
          isRunning &&
          (row.phase === "paused"
            ? button("Resume", resumeJob, "in-menu")
            : button("Pause", pauseJob, "in-menu")),
        mayKill &&
          isRunning &&
          menuButton("Signal", (at) =>
            openMenu(
              at,
              SIGNALS.map((name) => ({
                name: `SIG${name}`,
                act: () => signalJob(app, this.row, name),
              })),
              "Send a signal",
            ),
          ),
        mayKill && isAlive(row) && button("Kill", killJob, "danger"),
        !isAlive(row) && app.may("run") && button("Run again", rerunJob),
        row.group !== "queued" &&
          element("a", { class: "button in-menu", href: downloadOf(row), download: true }, "Download"),
        (this.more = menuButton("More", () => this.menu())),
      ].filter(Boolean),
    );
  }

  menu() {
    openMenu(this.more, actionsOf(this.app, this.row), `Actions of ${title(this.row)}`);
  }

  isNew(part, ...shown) {
    const key = JSON.stringify(shown);
    if (this.shown.get(part) === key) return false;
    this.shown.set(part, key);
    return true;
  }

  showBrief(row) {
    const { output_bytes: _, ...told } = row;
    if (!this.isNew("brief", told)) return;
    const fact = (words, title = null) => element("span", { title }, words);
    const began = row.started ?? row.created;
    this.brief.replaceChildren(
      ...[
        this.time,
        row.group === "ended"
          ? fact(`ended ${when(row.ended ?? row.created)}`, moment(row.ended ?? row.created))
          : row.group === "queued"
            ? fact(`queued since ${when(row.created)}`, moment(row.created))
            : fact(`since ${when(began)}`, moment(began)),
        row.group === "ended" && howItEnded(row) && element("span", { class: row.status }, howItEnded(row)),
        row.group === "queued" && row.reason && fact(withNames(row.reason, this.app.jobs)),
        ...targetTags(row),
        ...portsOf(row),
        row.held &&
          element(
            "span",
            { class: "tag held" },
            icon("person"),
            `held by ${row.held.by} since ${when(row.held.since)}`,
          ),
        row.restarts && fact(`restarted ${row.restarts === 1 ? "once" : `${row.restarts} times`}`),
        row.by && fact(`by ${row.by}`),
        row.cwd && element("code", {}, row.cwd),
        row.of && element("a", { href: `/?job=${row.of}` }, "runs an earlier job again"),
      ].filter(Boolean),
    );
  }

  showCommand(command) {
    if (!this.isNew("command", command)) return;
    const isLong = command.length > LONG_COMMAND || command.includes("\n");
    const block = element(
      "pre",
      {
        class: "wrapped",
        tabindex: isLong ? "0" : null,
        role: isLong ? "region" : null,
        "aria-label": isLong ? "Command" : null,
      },
      command,
    );
    this.command.replaceChildren(
      isLong
        ? element(
            "details",
            {},
            element("summary", {}, element("code", {}, command.replace(/\s+/g, " ").slice(0, 300))),
            block,
          )
        : block,
    );
  }

  // A question stands below the log, with what is needed to answer it, and so does a line to type into a job
  // without a terminal. In the terminal both are on the screen.
  showLine() {
    const { row, app } = this;
    const isShown = this.partShown !== "terminal" && (row.group === "asking" || (!row.pty && canType(row)));
    if (!isShown || (row.group !== "asking" && !app.may("run"))) {
      this.typing.replaceChildren();
      this.answer = null;
    } else if (this.answer) this.answer.update(row);
    else {
      const end = row.pty
        ? []
        : [
            element(
              "button",
              { type: "button", title: "As ctrl-d does", onclick: () => this.answer.end() },
              "End the input",
            ),
          ];
      this.answer = new Answer(app, row, end);
      this.typing.replaceChildren(this.answer.node);
    }
  }

  tick() {
    if (!this.row) return;
    const { row } = this,
      seconds = row.group === "queued" ? null : took(row);
    const words = seconds === null ? "" : row.ended ? duration(seconds) : soFar(seconds);
    if (this.time.textContent !== words) this.time.textContent = words;
  }

  // -- its parts ----------------------------------------------------------------------------------

  partName() {
    const { view } = this.query,
      isTerminal = this.row.pty && isAlive(this.row);
    if (view === "terminal" && !this.row.pty) return "log";
    return Object.hasOwn(PARTS, view) ? view : isTerminal && this.row.group !== "queued" ? "terminal" : "log";
  }

  showParts(row) {
    if (!this.isNew("parts", row.pty, this.partShown)) return;
    const names = Object.keys(PARTS).filter((name) => name !== "terminal" || row.pty);
    this.parts.replaceChildren(
      ...names.map((name) =>
        element(
          "a",
          { href: `/?job=${row.id}&view=${name}`, "aria-current": name === this.partShown ? "page" : null },
          PARTS[name].name,
        ),
      ),
    );
  }

  async openPart() {
    const mine = ++this.turn,
      name = (this.partShown = this.partName());
    this.showParts(this.row);
    this.showLine();
    this.closePart();
    const place = element("div", { class: `view ${name}` });
    this.below.replaceChildren(place);
    delete this.place.dataset.part;
    const module = await PARTS[name].open().catch(notThere);
    if (mine !== this.turn || this.isClosed || this.isGone) return;
    this.part = module.open(place, this.app, { ...this.query, job: this.id });
    this.place.dataset.part = name;
    if (this.query.type) this.answer?.focus();
  }

  closePart() {
    this.part?.close();
    this.part = null;
  }
}
