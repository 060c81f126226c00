// One job in the list.

import { actionsOf, attach } from "./actions.js";
import { Answer } from "./answer.js";
import { element } from "./element.js";
import { icon, iconOf } from "./icons.js";
import { openMenu } from "./menu.js";
import { sparkline } from "./sparkline.js";
import { bytes, duration, moment, short, soFar, state, title, took, when } from "./words.js";

// What wavers a little is drawn flat, what grows is seen.
const FULL_PERCENT = 100,
  GROWN = 1.5,
  SHOWN = 60;
const ID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;

export class RowNode {
  constructor(app) {
    this.app = app;
    this.state = element("span", { class: "state" });
    this.name = element("a", { class: "name" });
    this.tags = element("span", { class: "tags" });
    this.command = element("code", { class: "command" });
    this.more = element("span", { class: "usage" });
    this.by = element("span", { class: "by" });
    this.took = element("span", { class: "took" });
    this.when = element("time", { class: "when" });
    this.menu = element(
      "button",
      {
        class: "menu-button",
        type: "button",
        "aria-haspopup": "menu",
        "aria-expanded": "false",
        onclick: () => this.openMenu(),
      },
      icon("more"),
    );
    this.line = element(
      "div",
      { class: "line" },
      this.state,
      this.name,
      element("span", { class: "what" }, this.tags, this.command),
      this.more,
      this.by,
      this.took,
      this.when,
      this.menu,
    );
    this.node = element("div", { role: "listitem", class: "row" }, this.line);
  }

  // `by`: how the list is grouped; of agents, the column beside the times tells the project.
  update(row, { isSelected, position, count, by }) {
    this.node.setAttribute("aria-posinset", position);
    this.node.setAttribute("aria-setsize", count);
    if (this.isSelected !== isSelected) this.select(isSelected);
    if (this.row !== row || this.groupedBy !== by) this.show(row, by);
    this.tick();
  }

  // Only the controls of one row are on the way of the tab key; those of a question always are.
  select(isSelected) {
    this.isSelected = isSelected;
    this.node.classList.toggle("selected", isSelected);
    this.showReach();
  }

  showReach() {
    for (const control of [this.name, this.menu, ...this.tags.querySelectorAll("a")]) {
      control.tabIndex = this.isSelected ? 0 : -1;
    }
  }

  show(row, by) {
    this.row = row;
    this.groupedBy = by;
    this.node.dataset.id = row.id;
    this.node.className = `row ${row.group} ${row.status}${this.isSelected ? " selected" : ""}`;
    const words = state(row);
    this.state.className = `state ${iconOf(row)}`;
    this.state.replaceChildren(icon(iconOf(row)), element("span", {}, words));
    this.name.href = `/?job=${row.id}`;
    this.name.textContent = row.name || short(row.id);
    this.name.classList.toggle("nameless", !row.name);
    this.name.setAttribute(
      "aria-label",
      `${this.name.textContent}, ${row.outcome ?? words}${row.name ? "" : `, ${row.command}`}`,
    );
    this.menu.setAttribute("aria-label", `Actions of ${title(row)}`);
    this.command.textContent = oneLine(row.command);
    this.command.title = row.command;
    this.by.textContent = (by === "agent" ? row.cwd?.split("/").at(-1) : row.by) ?? "";
    this.by.title = `${row.by ?? ""} ${row.cwd ?? ""}`.trim();
    this.showTags(row);
    this.showMore(row);
    const at = row.ended ?? row.started ?? row.created;
    this.when.dateTime = new Date(at * 1000).toISOString();
    this.when.title = moment(at);
    this.showQuestion(row);
  }

  showQuestion(row) {
    if (row.group !== "asking") {
      this.answer?.node.remove();
      this.answer = null;
    } else if (this.answer) this.answer.update(row);
    else {
      this.answer = new Answer(this.app, row, row.pty ? [this.terminalButton()] : []);
      this.node.append(this.answer.node);
    }
  }

  terminalButton() {
    return element("button", { type: "button", onclick: () => attach(this.app, this.row) }, "Open terminal");
  }

  showTags(row) {
    const key = JSON.stringify([row.target, row.node, row.unreachable, row.ports, row.held, row.restarts]);
    if (this.tagged === key) return;
    this.tagged = key;
    this.tags.replaceChildren(
      ...targetTags(row),
      ...portsOf(row),
      ...(row.held
        ? [
            element(
              "span",
              { class: "tag held", title: `since ${moment(row.held.since)}` },
              icon("person"),
              `held by ${row.held.by}`,
            ),
          ]
        : []),
      ...(row.restarts ? [element("span", { class: "tag" }, `restart ${row.restarts}`)] : []),
    );
    this.showReach();
  }

  // What matters most of it: what it uses, why it waits, how it ended.
  showMore(row) {
    const isMeasured = row.group === "running" || row.group === "asking";
    if (isMeasured && !this.cpu) {
      this.cpu = usage("CPU");
      this.memory = usage("Memory");
      this.more.replaceChildren(this.cpu.node, this.memory.node);
    }
    if (isMeasured) return;
    this.cpu = this.memory = null;
    const text = row.group === "queued" ? withNames(row.reason ?? "", this.app.jobs) : howItEnded(row);
    this.more.replaceChildren(element("span", { class: "why", title: text }, text));
  }

  // What changes by itself.
  tick() {
    const { row } = this,
      now = Date.now() / 1000,
      seconds = row.group === "queued" ? now - row.created : took(row, now);
    const isOver = row.ended !== undefined && row.ended !== null;
    text(this.took, isOver ? duration(seconds) : soFar(seconds));
    text(this.when, when(row.ended ?? row.started ?? row.created, now));
    if (!this.cpu) return;
    const samples = this.app.jobs.samples.get(row.id);
    const last = samples?.at.at(-1);
    if (this.sampled === last && this.sampledOf === this.cpu) return;
    this.sampled = last;
    this.sampledOf = this.cpu;
    drawUsage(
      this.cpu,
      samples?.cpu,
      (percent) => `${Math.round(percent)}%`,
      () => FULL_PERCENT,
    );
    drawUsage(this.memory, samples?.memory, bytes, (shown) => GROWN * Math.min(...shown));
  }

  openMenu() {
    openMenu(this.menu, actionsOf(this.app, this.row), `Actions of ${title(this.row)}`);
  }
}

// A port of another machine is not open here.
export const portsOf = (row) =>
  (row.ports ?? []).map((port) =>
    row.target ? element("span", { class: "port", title: `on ${row.target}` }, `:${port}`) : portLink(port),
  );

const portLink = (port) =>
  element(
    "a",
    {
      class: "port",
      href: `http://${location.hostname}:${port}/`,
      target: "_blank",
      rel: "noopener noreferrer",
      title: `Open port ${port} in a new tab`,
      "aria-label": `Port ${port}, opens in a new tab`,
    },
    `:${port}`,
  );

// Where a job of another machine is, and whether that answers.
export function targetTags(row) {
  if (!row.target) return [];
  const where = element("span", { class: "tag target", title: placeOf(row) }, `@${row.target}`);
  if (!row.unreachable) return [where];
  const { since, why } = row.unreachable;
  const gone = element(
    "span",
    { class: "tag unreachable", title: `since ${moment(since)}: ${why}` },
    `unreachable since ${when(since)}`,
  );
  return [where, gone];
}

const placeOf = ({ target, node, engine_id: number }) =>
  [`runs on ${target}`, node && `node ${node}`, number && `job ${number} there`].filter(Boolean).join(", ");

export function howItEnded(row) {
  const outcome =
    row.outcome && row.outcome !== "completed" ? row.outcome.replace(/^(failed with|was) /, "") : "";
  return row.reason && row.cause !== "exited" ? [outcome, row.reason].filter(Boolean).join(": ") : outcome;
}

// A job that is named by its id in a reason, by its name.
export const withNames = (reason, jobs) => reason.replace(ID, (id) => jobs.rows.get(id)?.name ?? short(id));

const oneLine = (command) => command.replace(/\s+/g, " ");

function usage(name) {
  const canvas = element("canvas", { "aria-hidden": "true" }),
    value = element("span", { class: "value" });
  return {
    node: element(
      "span",
      { class: "use", title: name },
      canvas,
      element("span", { class: "unseen" }, `${name} `),
      value,
    ),
    canvas,
    value,
  };
}

// Full at `least(values)`, or at the largest value.
function drawUsage({ canvas, value }, series = [], words, least) {
  const last = series.at(-1),
    shown = series.slice(-SHOWN).filter((one) => one !== null);
  text(value, last === null || last === undefined ? "" : words(last));
  sparkline(canvas, series, { most: shown.length ? Math.max(least(shown), ...shown) : 0, points: SHOWN });
}

function text(node, words) {
  if (node.textContent !== words) node.textContent = words;
}
