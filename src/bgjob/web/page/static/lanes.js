// What the timeline shows, without drawing it: the jobs of a span, how each went, what happened, in words.

import { count, duration, title } from "./words.js";

// In this order they are counted. `word` follows a number; `fill` and `pattern`: how a bar of it is painted.
export const WAYS = {
  completed: { word: "completed", colour: "--good", fill: 0.3, pattern: "plain" },
  failed: { word: "failed", colour: "--bad", fill: 0.45, pattern: "striped", isBad: true },
  killed: { word: "killed", colour: "--bad", fill: 0.12, pattern: "crossed", isBad: true },
  lost: { word: "lost", colour: "--lost", fill: 0.12, pattern: "dashed", isBad: true },
  asking: { word: "waiting for you", colour: "--ask", fill: 0.35, pattern: "dotted" },
  running: { word: "running", colour: "--run", fill: 0.3, pattern: "open" },
  queued: { word: "queued", colour: "--wait" },
};
// The kinds of events that are drawn as marks, the last on top.
export const MARKS = {
  typed: { one: "typing", many: "times typed", colour: "--quiet" },
  matched: { one: "match", many: "matches", colour: "--link" },
  restarting: { one: "restart", many: "restarts", colour: "--wait" },
  limit_near: { one: "near a limit", many: "times near a limit", colour: "--ask" },
  limit_hit: { one: "limit reached", many: "limits reached", colour: "--bad" },
  input: { one: "question", many: "questions", colour: "--ask" },
};
const COUNTED = ["input", "matched", "limit_near", "limit_hit", "restarting", "typed"];

export function wayOf(row) {
  if (row.group !== "ended") return row.group;
  return row.cause === "lost" ? "lost" : row.status;
}

export const beganAt = (row) => row.started ?? (row.group === "ended" ? row.created : null);

// When it was over, or now. When a lost job was over is not known: all that is known is its beginning.
export function endedAt(row, now) {
  if (row.ended) return row.ended;
  return row.group === "ended" ? beganAt(row) : Math.max(now, row.created);
}

export const tookOf = (row, now) => Math.max(0, endedAt(row, now) - (row.started ?? row.created));

export const newestFirst = (rows) =>
  [...rows].sort((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1));

export const touches = (row, from, to, now) => row.created <= to && endedAt(row, now) >= from;

// Jobs that do not overlap share a lane: the lane of each, by id. The same for any span, so that none jumps.
export function packed(rows) {
  const laneOf = new Map(); // free: when the last job of each lane is over
  const free = [];
  for (const row of [...rows].reverse()) {
    const found = free.findIndex((at) => at < row.created);
    const lane = found < 0 ? free.length : found;
    free[lane] = endedAt(row, Infinity);
    laneOf.set(row.id, lane);
  }
  return laneOf;
}

// "41 jobs: 37 completed, 3 failed, 1 killed; 2 questions; longest: build, 12m 03s"
export function summary(rows, marks, now) {
  if (!rows.length) return "";
  const ways = tally(rows.map(wayOf));
  const kinds = tally(marks.map((mark) => mark.kind));
  const longest = rows.reduce((a, b) => (tookOf(b, now) > tookOf(a, now) ? b : a));
  return [
    `${count(rows.length, "job")}: ${Object.keys(WAYS)
      .filter((way) => ways[way])
      .map((way) => `${ways[way]} ${WAYS[way].word}`)
      .join(", ")}`,
    COUNTED.filter((kind) => kinds[kind])
      .map((kind) => count(kinds[kind], MARKS[kind].one, MARKS[kind].many))
      .join(", "),
    `longest: ${title(longest)}, ${duration(tookOf(longest, now))}`,
  ]
    .filter(Boolean)
    .join("; ");
}

function tally(words) {
  const found = {};
  for (const word of words) found[word] = (found[word] ?? 0) + 1;
  return found;
}

// What happened in a span, the newest first: each mark, each end, and the start of what has not ended in it.
export function happenings(rows, marks, from, to) {
  const found = marks.map((mark) => ({
    at: mark.at,
    row: mark.row,
    kind: mark.kind,
    words: mark.words,
    cursor: mark.cursor,
  }));
  for (const row of rows) {
    const isOver = row.group === "ended" && endedAt(row) <= to;
    if (isOver && endedAt(row) >= from)
      found.push({ at: endedAt(row), row, kind: wayOf(row), words: endOf(row) });
    else if (row.started >= from && row.started <= to)
      found.push({ at: row.started, row, kind: "running", words: "started" });
    if (!row.started && !isOver && row.created >= from)
      found.push({ at: row.created, row, kind: "queued", words: "queued" });
  }
  return found.sort((a, b) => b.at - a.at);
}

function endOf(row) {
  if (wayOf(row) === "lost") return "started, and was lost: when it ended is not known";
  return row.started ? `${row.outcome} after ${duration(row.ended - row.started)}` : row.outcome;
}

// What a job is, in words: for those who hear it.
export function told(row, now) {
  const began =
    row.started && wayOf(row) !== "lost"
      ? `, ${row.ended ? "took" : "for"} ${duration(tookOf(row, now))}`
      : "";
  return `${title(row)}: ${row.outcome ?? WAYS[wayOf(row)].word}${began}`;
}
