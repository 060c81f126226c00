// The timeline in words: its span, the card of a job, and the table of what happened.

import { dayText } from "./chart.js";
import { element } from "./element.js";
import { endedAt, tookOf, WAYS, wayOf } from "./lanes.js";
import { PRESETS } from "./span.js";
import { symbol } from "./symbols.js";
import { clock, count, duration, moment, soFar, title } from "./words.js";

const PAGE = 100;

export function spanWords(span, from, to) {
  const preset = PRESETS.find((each) => each.last === span.last);
  if (preset) return preset.words;
  if (span.isLive) return `The last ${duration(span.last)}`;
  const digits = to - from < 600 ? 8 : 5;
  const [first, last] = [from, to].map((at) => new Date(at * 1000));
  const [day, otherDay] = [first, last].map(dayText);
  const [begin, end] = [from, to].map((at) => clock(at).slice(0, digits));
  return `${day} ${begin} – ${day === otherDay ? "" : `${otherDay} `}${end}`;
}

// The facts of a job, and first of all the mark that was pointed at.
export function jobCard(row, mark) {
  const now = Date.now() / 1000;
  const way = wayOf(row);
  const queued = (row.started ?? endedAt(row, now)) - row.created;
  const head = element("p", { class: "title" }, title(row));
  const facts = [
    [null, row.outcome ?? WAYS[way].word, way],
    [row.ended ? "ran" : "runs", row.started ? ran(row, now) : null],
    ["queued", queued > 1 ? `${duration(queued)}, since ${clock(row.created)}` : null],
    ["asks", row.group === "asking" ? row.prompt : null],
    ["command", row.name ? row.command : null],
    ["in", row.cwd],
    ["by", row.by],
  ];
  return [
    mark && element("p", { class: "happening" }, symbol(mark.kind), `${clock(mark.at)} ${mark.words}`),
    head,
    ...facts
      .filter(([, text]) => text)
      .map(([name, text, kind]) =>
        element(
          "p",
          { class: name === "command" || name === "in" ? "mono" : (kind ?? "") },
          kind ? symbol(kind) : element("span", { class: "quiet" }, `${name} `),
          text,
        ),
      ),
  ].filter(Boolean);
}

function ran(row, now) {
  if (wayOf(row) === "lost") return `from ${clock(row.started)}; until when is not known`;
  if (!row.ended) return `since ${clock(row.started)}, ${soFar(tookOf(row, now))}`;
  return `${clock(row.started)} – ${clock(row.ended)}, ${duration(tookOf(row, now))}`;
}

// What happened, the newest first. Rows that stay are left alone, so that the focus stays on them.
export class WordsTable {
  constructor() {
    this.rows = new Map(); // by key
    this.most = PAGE;
    this.body = element("tbody");
    this.heading = element("h2", {}, "What happened");
    this.more = element("button", { type: "button", hidden: true, onclick: () => this.showMore() });
    this.note = element(
      "p",
      { class: "quiet", hidden: true },
      "There is too much in this span to tell all marks: look closer for older ones.",
    );
    this.node = element(
      "section",
      { class: "happened", "aria-labelledby": "happened" },
      this.heading,
      element(
        "table",
        {},
        element(
          "thead",
          {},
          element("tr", {}, ...["When", "Job", "What"].map((text) => element("th", { scope: "col" }, text))),
        ),
        this.body,
      ),
      this.note,
      this.more,
    );
    this.heading.id = "happened";
  }

  showMore() {
    this.most += PAGE;
    this.show(this.entries, !this.note.hidden);
  }

  show(entries, hasMore) {
    this.entries = entries;
    this.note.hidden = !hasMore;
    this.node.hidden = !entries.length;
    this.more.hidden = entries.length <= this.most;
    const following = Math.min(PAGE, entries.length - this.most);
    this.more.textContent = `Show ${following} more of ${count(entries.length, "line")}`;
    const before = this.rows;
    const wanted = entries.slice(0, this.most).map((entry) => [keyOf(entry), entry]);
    this.rows = new Map(wanted.map(([key, entry]) => [key, before.get(key) ?? this.row(entry)]));
    for (const [key, node] of before) if (this.rows.get(key) !== node) node.remove();
    let next = this.body.firstChild;
    for (const node of this.rows.values()) {
      if (node === next) next = next.nextSibling;
      else this.body.insertBefore(node, next);
    }
  }

  row(entry) {
    const isToday = new Date(entry.at * 1000).toDateString() === new Date().toDateString();
    return element(
      "tr",
      { "data-job": entry.row.id, "data-kind": entry.kind },
      element(
        "td",
        { class: "when", title: moment(entry.at) },
        isToday ? clock(entry.at) : `${dayText(new Date(entry.at * 1000))} ${clock(entry.at).slice(0, 5)}`,
      ),
      element("td", { class: "job" }, element("a", { href: `/?job=${entry.row.id}` }, title(entry.row))),
      element("td", {}, symbol(entry.kind), entry.words),
    );
  }
}

const keyOf = (entry) => `${entry.row.id} ${entry.kind} ${entry.at} ${entry.words}`;
