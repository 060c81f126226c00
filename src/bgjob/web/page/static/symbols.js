// The small drawings of the timeline, on a canvas and beside words: how a job went, and what happened to it.
// None of them is told by its colour alone.

import { colour } from "./chart.js";
import { drawing } from "./element.js";
import { icon, PATHS } from "./icons.js";
import { MARKS } from "./lanes.js";

const QUESTION = "M6.1 6.2c.1-1.1.9-1.7 2-1.7s1.9.7 1.9 1.6c0 1.4-1.9 1.5-1.9 3M8 11.4v.1";
const TRIANGLE = "M8 2.8 13.4 12.4H2.6z";
// In a box of 16 pixels. `cut`: lines of the background's colour, within what is filled.
const SHAPES = {
  input: { fill: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z", cut: QUESTION },
  matched: { fill: "M8 2.8 13.2 8 8 13.2 2.8 8z" },
  limit_near: { line: TRIANGLE },
  limit_hit: { fill: TRIANGLE, line: TRIANGLE, cut: "M8 6.2v3M8 11.1v.1" },
  restarting: { line: "M12.3 5.6A5 5 0 1 0 13 8.6M12.6 2.4v3.3H9.3" },
  typed: { line: "M5.5 3h5M8 3v10M5.5 13h5" },
};
const FILLED = new Set(["running", "killed"]);
const paths = new Map();

function path(text) {
  if (!paths.has(text)) paths.set(text, new Path2D(text));
  return paths.get(text);
}

// In the middle of (x, y); `name`: that of an icon.
export function drawIcon(context, name, colourName, x, y) {
  at(context, x, y, 0.85, () => {
    context.strokeStyle = context.fillStyle = colour(colourName);
    context.lineWidth = 1.9;
    if (FILLED.has(name)) context.fill(path(PATHS[name]));
    if (name !== "running") context.stroke(path(PATHS[name]));
  });
}

// On a disc of the background's colour, so that it stands out from any bar.
export function drawMark(context, kind, x, y, isFocused = false) {
  const { fill, line, cut } = SHAPES[kind];
  at(context, x, y, 0.95, () => {
    disc(context, 7.4);
    context.fillStyle = colour("--back");
    context.fill();
    context.strokeStyle = context.fillStyle = colour(MARKS[kind].colour);
    context.lineWidth = 1.6;
    if (fill) context.fill(path(fill));
    if (line) context.stroke(path(line));
    context.strokeStyle = colour("--back");
    if (cut) context.stroke(path(cut));
    if (isFocused) ring(context);
  });
}

function ring(context) {
  context.strokeStyle = colour("--focus");
  context.lineWidth = 2;
  disc(context, 9.5);
  context.stroke();
}

function disc(context, radius) {
  context.beginPath();
  context.arc(8, 8, radius, 0, 2 * Math.PI);
}

function at(context, x, y, scale, draw) {
  context.save();
  context.translate(x - 8 * scale, y - 8 * scale);
  context.scale(scale, scale);
  context.lineCap = context.lineJoin = "round";
  draw();
  context.restore();
}

// The same beside words: of a mark, or the icon of how a job went.
export function symbol(kind) {
  if (!SHAPES[kind]) return icon(kind);
  const { fill, line, cut } = SHAPES[kind];
  return drawing(
    "svg",
    { viewBox: "0 0 16 16", class: `icon mark ${kind}`, "aria-hidden": "true", focusable: "false" },
    fill && drawing("path", { d: fill, class: "fill" }),
    line && drawing("path", { d: line }),
    cut && drawing("path", { d: cut, class: "cut" }),
  );
}
