// What each job uses, as a table: the same values as in the charts, for those who cannot see them.

import { element, write } from "./element.js";
import { now, peak } from "./series.js";
import { bytes } from "./words.js";

const HEADS = ["Job", "CPU now", "CPU peak", "Memory now", "Memory peak", "Memory limit"];

export const percent = (value) =>
  `${value > 0 && value < 9.95 && value % 1 ? value.toFixed(1) : Math.round(value)}%`;

export class UseTable {
  constructor() {
    this.rows = new Map(); // nodes by id
    this.body = element("tbody");
    const heads = element(
      "tr",
      {},
      HEADS.map((text) => element("th", { scope: "col" }, text)),
    );
    const caption = element("caption", { class: "unseen" }, "What each job uses");
    this.node = element("table", {}, caption, element("thead", {}, heads), this.body);
  }

  // The jobs of `used`, and all rows by id. Nodes stay where they can, so that the focus stays on them.
  show(jobs, rows, nameOf) {
    const sorted = [...jobs].sort(byPeak);
    const before = this.rows;
    this.rows = new Map(sorted.map(({ id }) => [id, before.get(id) ?? this.row(id)]));
    for (const [id, node] of before) if (!this.rows.has(id)) node.remove();
    sorted.forEach((job, at) => {
      const node = this.rows.get(job.id);
      write(node.querySelector("a"), nameOf(job.id));
      texts(job, rows.get(job.id)).forEach((text, cell) => write(node.cells[cell + 1], text));
      if (this.body.children[at] !== node) this.body.insertBefore(node, this.body.children[at] ?? null);
    });
  }

  row(id) {
    const name = element("th", { scope: "row" }, element("a", { href: `/?job=${id}` }));
    return element(
      "tr",
      { "data-job": id },
      name,
      HEADS.slice(1).map(() => element("td")),
    );
  }
}

function byPeak(a, b) {
  return peak(b.cpu) - peak(a.cpu) || peak(b.memory) - peak(a.memory) || (a.id < b.id ? -1 : 1);
}

function texts({ cpu, memory }, row) {
  const limit = row?.limits?.memory_bytes;
  const current = (values, words) => (row?.group === "ended" ? "ended" : known(now(values), words));
  return [
    current(cpu, percent),
    percent(peak(cpu)),
    current(memory, bytes),
    bytes(peak(memory)),
    limit ? bytes(limit) : "none",
  ];
}

const known = (value, words) => (value === null ? "not known" : words(value));
