// What the timeline shows, without drawing it: the jobs of a span, how each went, what happened, all in words.

import { count, duration, title } from "./words.js";

// In this order they are counted. `word` follows a number.
export const WAYS = {
  completed: { word: "completed", colour: "--good" },
  failed: { word: "failed", colour: "--bad" },
  killed: { word: "killed", colour: "--bad" },
  lost: { word: "lost", colour: "--lost" },
  asking: { word: "waiting for an answer", colour: "--ask" },
  running: { word: "running", colour: "--run" },
  queued: { word: "queued", colour: "--wait" },
};
// The kinds of events that are drawn as marks, the last on top.
export const MARKS = {
  typed: { one: "typing by a person", many: "times typed by a person", colour: "--quiet" },
  matched: { one: "match", many: "matches", colour: "--link" },
  restarting: { one: "restart", many: "restarts", colour: "--wait" },
  limit_near: { one: "limit nearly reached", many: "limits nearly reached", colour: "--ask" },
  limit_hit: { one: "limit reached", many: "limits reached", colour: "--bad" },
  input: { one: "question", many: "questions", colour: "--ask" },
};
const COUNTED = ["input", "matched", "limit_near", "limit_hit", "restarting", "typed"];

export function wayOf(row) {
  if (row.group !== "ended") return row.group;
  return row.cause === "lost" ? "lost" : row.status;
}

export const beganAt = (row) => row.started ?? (row.group === "ended" ? row.ended : null);

export const tookOf = (row, now) => Math.max(0, (row.ended ?? now) - (row.started ?? row.created));

export const newestFirst = (rows) => [...rows].sort((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1));

export const touches = (row, from, to, now) => row.created <= to && (row.ended ?? Math.max(now, row.created)) >= from;

// "41 jobs: 37 completed, 3 failed, 1 killed; 2 questions; longest: build, 12m 03s"
export function summary(rows, marks, now) {
  if (!rows.length) return "";
  const ways = tally(rows.map(wayOf)), kinds = tally(marks.map((mark) => mark.kind));
  const longest = rows.reduce((a, b) => (tookOf(b, now) > tookOf(a, now) ? b : a));
  return [
    `${count(rows.length, "job")}: ${Object.keys(WAYS).filter((way) => ways[way]).map((way) => `${ways[way]} ${WAYS[way].word}`).join(", ")}`,
    COUNTED.filter((kind) => kinds[kind]).map((kind) => count(kinds[kind], MARKS[kind].one, MARKS[kind].many)).join(", "),
    `longest: ${title(longest)}, ${duration(tookOf(longest, now))}`,
  ].filter(Boolean).join("; ");
}

function tally(words) {
  const found = {};
  for (const word of words) found[word] = (found[word] ?? 0) + 1;
  return found;
}

// What happened in a span, the newest first: each mark, each end, and the start of what has not ended in it.
export function happenings(rows, marks, from, to) {
  const found = marks.map((mark) => ({ at: mark.at, row: mark.row, kind: mark.kind, words: mark.words, cursor: mark.cursor }));
  for (const row of rows) {
    const isOver = row.ended !== undefined && row.ended <= to;
    if (isOver && row.ended >= from) found.push({ at: row.ended, row, kind: wayOf(row), words: endOf(row) });
    else if (row.started >= from && row.started <= to) found.push({ at: row.started, row, kind: "running", words: "started" });
    if (!row.started && !isOver && row.created >= from) found.push({ at: row.created, row, kind: "queued", words: "queued" });
  }
  return found.sort((a, b) => b.at - a.at);
}

function endOf(row) {
  const how = { completed: "completed", lost: "was lost" }[wayOf(row)] ?? `${wayOf(row)}${row.outcome ? `: ${row.outcome}` : ""}`;
  return row.started ? `${how} after ${duration(row.ended - row.started)}` : how;
}

// What a job is, in words: for those who hear it.
export function told(row, now) {
  const began = row.started ? `, ${row.ended ? "took" : "for"} ${duration(tookOf(row, now))}` : "";
  return `${title(row)}: ${WAYS[wayOf(row)].word}${row.outcome && row.status !== "completed" ? `, ${row.outcome}` : ""}${began}`;
}
