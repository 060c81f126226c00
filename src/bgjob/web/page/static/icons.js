// Small drawings that stand beside words; a screen reader does not hear of them.

import { drawing } from "./element.js";

export const PATHS = {
  asking: `M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13
    M6.1 6.2c.1-1.1.9-1.7 2-1.7s1.9.7 1.9 1.6c0 1.4-1.9 1.5-1.9 3M8 11.4v.1`,
  running: "M8 3.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9",
  paused: "M5.5 4v8M10.5 4v8",
  queued: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3.2l2 1.3",
  completed: "m3.5 8.5 3 3 6-7",
  failed: "m4 4 8 8M12 4l-8 8",
  killed: "M4 4h8v8H4z",
  lost: "M5.5 5.8c.1-1.5 1.1-2.3 2.5-2.3s2.4.9 2.4 2.1c0 1.8-2.4 2-2.4 3.9M8 12.4v.1",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  fold: "m4.5 6 3.5 4 3.5-4",
  plus: "M8 3v10M3 8h10",
  remove: "m4.5 4.5 7 7M11.5 4.5l-7 7",
  person: "M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8m-5 5.5c.3-2.6 2.4-4 5-4s4.700 1.400 5 4",
};

export function icon(name) {
  return drawing(
    "svg",
    { viewBox: "0 0 16 16", class: `icon ${name}`, "aria-hidden": "true", focusable: "false" },
    drawing("path", { d: PATHS[name] }),
  );
}

export function iconOf(row) {
  if (row.group === "running") return row.phase === "paused" ? "paused" : "running";
  if (row.group !== "ended") return row.group;
  return row.cause === "lost" ? "lost" : row.status;
}
