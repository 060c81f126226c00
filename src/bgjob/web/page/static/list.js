// The list of all jobs: what waits for a person on top, then what runs, is queued and has ended.

import { attach, canType, isAlive, killJob } from "./actions.js";
import { Column } from "./column.js";
import { element, framed } from "./element.js";
import { icon } from "./icons.js";
import { filterProblem } from "./jobs.js";
import { keep, kept } from "./kept.js";
import { RowNode } from "./row.js";
import { countsInWords, sectionsOf, WAYS } from "./sections.js";
import { startForm } from "./start.js";
import { count } from "./words.js";

const HEIGHTS = { row: 34, heading: 38, asking: 74 },
  NARROW = { row: 56, heading: 38, asking: 180 };
const narrow = matchMedia("(max-width: 44rem)");
const PAGE_ROWS = 15;
const COLUMNS = {
  running: { usage: "CPU Memory", took: "Time", when: "Since" },
  queued: { usage: "Why", took: "Waits", when: "Since" },
  ended: { usage: "How", took: "Took", when: "Ended" },
};

// Where the list was left: a user who comes back from a job finds it so.
const left = { selected: null, top: 0 };

export function open(place, app, query) {
  return new List(place, app, query);
}

class List {
  constructor(place, app, query) {
    this.app = app;
    this.place = place;
    this.filter = query.filter ?? "";
    this.by = Object.hasOwn(WAYS, query.by) ? query.by : kept("list by", "state");
    this.folded = new Set(kept("list folded", []));
    this.selected = left.selected;
    this.isChosen = left.selected !== null; // else the job on top is selected
    this.build();
    this.arrange = framed(() => this.arrangeNow());
    this.ends = [
      app.jobs.onchange((_, what) => (what === "rows" ? this.arrange() : this.column.draw())),
      listen(narrow, "change", () => this.arrange()),
      listen(document, "visibilitychange", () => this.column.draw()),
    ];
    this.ticking = setInterval(() => document.hidden || this.column.draw(), 1000);
    this.arrangeNow();
    this.box.scrollTop = left.top;
  }

  close() {
    left.selected = this.isChosen ? this.selected : null;
    left.top = this.box.scrollTop;
    clearInterval(this.ticking);
    for (const end of this.ends) end();
    this.column.close();
  }

  build() {
    this.field = element("input", {
      type: "search",
      id: "filter",
      placeholder: "Filter",
      autocomplete: "off",
      spellcheck: "false",
      "aria-keyshortcuts": "/",
      value: this.filter,
      oninput: () => this.changeFilter(),
      onkeydown: (event) => this.fieldKey(event),
    });
    this.counts = element("p", { class: "counts" });
    this.heard = element("p", { class: "unseen", role: "status" });
    const ways = element(
      "div",
      { class: "ways", role: "group", "aria-label": "Group jobs by" },
      Object.entries(WAYS).map(([key, name]) =>
        element(
          "button",
          {
            type: "button",
            "aria-pressed": String(key === this.by),
            "data-by": key,
            onclick: () => this.groupBy(key),
          },
          name,
        ),
      ),
    );
    this.ways = ways;
    this.box = element("div", { class: "scroll" });
    this.note = element("section", { class: "note" });
    this.column = new Column(this.box, (item) => (item.row ? this.rowNode(item) : this.headingNode(item)));
    this.column.rows.setAttribute("aria-label", "Jobs");
    this.place.append(
      element("h2", { class: "unseen" }, "Jobs"),
      element(
        "div",
        { class: "bar" },
        element("label", { for: "filter", class: "unseen" }, "Filter"),
        this.field,
        ways,
        this.counts,
        this.heard,
      ),
      this.note,
      this.box,
    );
    this.box.addEventListener("focusin", (event) => {
      const id = event.target.closest(".row")?.dataset.id;
      if (id) this.choose(id);
    });
  }

  // -- what is shown ------------------------------------------------------------------------------

  arrangeNow() {
    const { rows } = this.app.jobs;
    const { sections, total } = sectionsOf(rows.values(), this);
    const heights = narrow.matches ? NARROW : HEIGHTS,
      items = [];
    for (const section of sections) {
      items.push({ key: section.key, height: heights.heading, section });
      if (section.isFolded) continue;
      section.rows.forEach((row, at) => {
        const isAsking = row.group === "asking";
        items.push({
          key: row.id,
          height: isAsking ? heights.asking : heights.row,
          measured: isAsking,
          row,
          section,
          position: at + 1,
        });
      });
    }
    this.rows = items.filter((item) => item.row);
    this.keepSelected();
    this.column.kept = this.selected;
    this.column.set(items);
    this.tell(total, rows.size);
  }

  // A selected job that is gone gives way to the one that has its place now.
  keepSelected() {
    const at = this.isChosen ? this.rows.findIndex((item) => item.key === this.selected) : -1;
    if (at < 0) this.selected = this.rows[Math.min(this.selectedAt ?? 0, this.rows.length - 1)]?.key ?? null;
    else this.selectedAt = at;
  }

  tell(total, all) {
    const { isComplete, problem } = this.app.jobs;
    const shown = this.filter.trim()
      ? `${total.all.toLocaleString("en")} of ${count(all, "job")}`
      : countsInWords(total);
    const reading = isComplete ? "" : all ? "reading older jobs …" : "reading jobs …";
    const words = [shown, reading].filter(Boolean).join(", ");
    write(this.counts, words);
    // A screen reader hears what waits and what a filter finds, not every job that comes or goes.
    write(this.heard, this.filter.trim() ? words : countsInWords({ asking: total.asking }));
    this.tellNote(this.noteOf(total.all, all, isComplete, problem));
  }

  noteOf(shown, all, isComplete, problem) {
    if (problem) return `problem ${problem}`;
    if (shown) return "";
    if (this.filter.trim() && (all || isComplete)) return `filter ${filterProblem(this.filter) ?? ""}`;
    return isComplete ? "empty" : "";
  }

  tellNote(key) {
    if (this.noted === key) return;
    this.noted = key;
    const [kind, ...words] = key.split(" ");
    const parts = {
      problem: () => problemNote(words.join(" ")),
      filter: () => this.noMatch(words.join(" ")),
      empty: () => emptyNote(this.app),
    };
    this.note.replaceChildren(...(parts[kind]?.() ?? []));
    this.note.hidden = !kind;
  }

  noMatch(problem) {
    return [
      element("h2", {}, "No job fits"),
      element(
        "p",
        {},
        problem || "All words of the filter must fit. ",
        problem ? " " : "",
        element("button", { type: "button", onclick: () => this.clearFilter() }, "Clear the filter"),
      ),
    ];
  }

  rowNode() {
    const made = new RowNode(this.app);
    return {
      made,
      node: made.node,
      update: (item) =>
        made.update(item.row, {
          isSelected: item.key === this.selected,
          position: item.position,
          by: this.by,
          count: item.section.rows.length,
        }),
    };
  }

  headingNode({ section: { key, heading } }) {
    const state = key.startsWith("state ") ? key.slice(6) : "";
    const counts = element("span", { class: "quiet" });
    const button = element(
      "button",
      { type: "button", class: "fold", onclick: () => this.fold(key) },
      icon("fold"),
      heading,
      " ",
      counts,
    );
    const columns = Object.entries(COLUMNS[state] ?? {}).map(([name, words]) =>
      element(
        "span",
        { class: name, "aria-hidden": "true" },
        words.split(" ").map((word) => element("span", {}, word)),
      ),
    );
    const node = element(
      "div",
      { role: "listitem", class: `heading line ${state}` },
      element("h3", {}, button),
      columns,
    );
    return {
      node,
      update: ({ section }) => {
        button.setAttribute("aria-expanded", String(!section.isFolded));
        const words = state ? section.rows.length.toLocaleString("en") : countsInWords(section.counts);
        write(counts, words);
      },
    };
  }

  // -- choices ------------------------------------------------------------------------------------

  changeFilter() {
    this.filter = this.field.value;
    this.box.scrollTop = 0;
    this.remember();
    this.arrangeNow();
  }

  clearFilter() {
    this.field.value = "";
    this.changeFilter();
    this.field.focus();
  }

  groupBy(way) {
    this.by = way;
    keep("list by", way);
    for (const button of this.ways.children)
      button.setAttribute("aria-pressed", String(button.dataset.by === way));
    this.remember();
    this.arrangeNow();
  }

  remember() {
    this.app.go({ filter: this.filter.trim(), by: this.by === "state" ? "" : this.by }, { replace: true });
  }

  fold(key) {
    if (!this.folded.delete(key)) this.folded.add(key);
    keep("list folded", [...this.folded]);
    this.arrangeNow();
  }

  // -- keys ---------------------------------------------------------------------------------------

  fieldKey(event) {
    if (event.key === "Escape" && !this.field.value) this.focusSelected();
    else if (event.key === "Escape") this.clearFilter();
    else if (event.key === "Enter" || event.key === "ArrowDown") this.focusSelected();
    else return;
    event.preventDefault();
  }

  key(event) {
    const row = this.app.jobs.rows.get(this.selected),
      { app } = this;
    const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: PAGE_ROWS, PageUp: -PAGE_ROWS }[event.key];
    if (by) return this.move(this.at() + by);
    const to = { g: 0, Home: 0, G: Infinity, End: Infinity }[event.key];
    if (to !== undefined) return this.move(to);
    if (event.key === "/") (this.field.select(), this.field.focus());
    else if (event.key === "Escape") this.filter ? this.clearFilter() : this.focusSelected();
    else if (!row) return false;
    else if (event.key === "Enter" && hasOwnEnter(event.target)) return false;
    else if (event.key === "Enter") app.go({ job: row.id });
    else if (event.key === "a") this.attach(row);
    else if (event.key === "l") app.go({ job: row.id, view: "log" });
    else if (event.key === "x") this.kill(row);
    else if (event.key === "m") this.column.drawn.get(row.id)?.made.openMenu();
    else return false;
    return true;
  }

  attach(row) {
    if (!this.app.may("run")) this.app.say("This login may not type into jobs.");
    else if (canType(row) || row.pty) attach(this.app, row);
    else
      this.app.say(
        isAlive(row)
          ? "This job has no input to type into."
          : "This job has ended: there is nothing to type into.",
      );
  }

  kill(row) {
    if (!this.app.may("kill")) this.app.say("This login may not kill jobs.");
    else if (!isAlive(row)) this.app.say("This job has ended already.");
    else killJob(this.app, row);
  }

  at() {
    return this.rows.findIndex((item) => item.key === this.selected);
  }

  move(to) {
    const item = this.rows[Math.max(0, Math.min(this.rows.length - 1, to))];
    if (!item) return true;
    this.choose(item.key);
    this.column.reveal(item.key, item.position === 1 ? HEIGHTS.heading : 0);
    this.column.drawNow();
    this.focusSelected();
    return true;
  }

  choose(id) {
    this.isChosen = true;
    this.selected = this.column.kept = id;
    this.selectedAt = this.at();
    this.column.draw();
  }

  focusSelected() {
    this.field.blur();
    this.column.drawn.get(this.selected)?.made.name.focus({ preventScroll: true });
  }
}

function write(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

function listen(target, kind, act) {
  target.addEventListener(kind, act);
  return () => target.removeEventListener(kind, act);
}

const hasOwnEnter = (node) => Boolean(node.closest?.("button, a:not(.name)"));

const problemNote = (problem) => [
  element("h2", {}, "The jobs cannot be read"),
  element("p", {}, problem),
  element(
    "p",
    {},
    "What is shown was read before. The page goes on by itself when the jobs can be read again.",
  ),
];

function emptyNote(app) {
  const start =
    app.may("run") &&
    element("button", { type: "button", class: "main", onclick: () => startForm(app) }, "Start a job");
  return [
    element("h2", {}, "No jobs yet"),
    element(
      "p",
      {},
      start ? "Start one here, or let your agent call " : "Let your agent call ",
      element("code", {}, "execute_command"),
      "; ",
      element("code", {}, "bgjob run -- make"),
      " works too.",
    ),
    ...(start ? [element("p", {}, start)] : []),
  ];
}
