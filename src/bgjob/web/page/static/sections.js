// The rows of the list in their order, with a heading above each group.

import { filterOf, ordered } from "./jobs.js";
import { count } from "./words.js";

export const HEADINGS = { asking: "Waits for you", running: "Running", queued: "Queued", ended: "Ended" };
export const WAYS = { state: "State", agent: "Agent", project: "Project" };
const NAMED = {
  state: (row) => row.group,
  agent: (row) => row.by ?? "",
  project: (row) => row.cwd ?? "",
};
const NAMELESS = { agent: "Not told who", project: "Not told where" };

// [{key, heading, rows, counts, isFolded}]: what waits for a person is on top, however the rest is grouped;
// then the groups by their most urgent job. `total`: how many jobs of each state there are.
export function sectionsOf(rows, { by = "state", filter = "", folded = new Set() } = {}) {
  const fits = filterOf(filter),
    sections = new Map();
  const total = { all: 0, asking: 0, running: 0, queued: 0, ended: 0 };
  for (const row of ordered([...rows].filter(fits))) {
    const name = row.group === "asking" ? "asking" : NAMED[by](row);
    const key = row.group === "asking" ? "state asking" : `${by} ${name}`;
    let section = sections.get(key);
    if (!section) {
      const heading = key.startsWith("state ") ? HEADINGS[name] : name || NAMELESS[by];
      section = { key, heading, rows: [], counts: {}, isFolded: folded.has(key) };
      sections.set(key, section);
    }
    section.rows.push(row);
    section.counts[row.group] = (section.counts[row.group] ?? 0) + 1;
    total[row.group] += 1;
    total.all += 1;
  }
  return { sections: [...sections.values()], total };
}

// 2 wait for you, 5 running, 1 queued, 231 ended
export function countsInWords(counts) {
  return [
    counts.asking && count(counts.asking, "waits for you", "wait for you"),
    counts.running && `${counts.running.toLocaleString("en")} running`,
    counts.queued && `${counts.queued.toLocaleString("en")} queued`,
    counts.ended && `${counts.ended.toLocaleString("en")} ended`,
  ]
    .filter(Boolean)
    .join(", ");
}
