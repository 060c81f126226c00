// The small drawings of the timeline: how a job went, and what happened to it. None is told by its colour alone.

import { colour, fitted, font } from "./chart.js";
import { element } from "./element.js";
import { MARKS, WAYS } from "./lanes.js";

const SIZE = 14;

// How a job went, in the middle of (x, y), about 10 pixels wide.
export function drawWay(context, way, x, y) {
  context.save();
  context.translate(x, y);
  context.strokeStyle = context.fillStyle = colour(WAYS[way].colour);
  context.lineWidth = 1.8;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  WAY_PATHS[way](context);
  context.restore();
}

const WAY_PATHS = {
  completed: (context) => stroke(context, [-4, 0.5], [-1.2, 3.4], [4, -3.2]),
  failed: (context) => {
    stroke(context, [-3.3, -3.3], [3.3, 3.3]);
    stroke(context, [3.3, -3.3], [-3.3, 3.3]);
  },
  killed: (context) => context.fillRect(-3.6, -3.6, 7.2, 7.2),
  lost: (context) => {
    context.setLineDash([2.2, 2.6]);
    context.arc(0, 0, 4, 0, 7);
    context.stroke();
  },
  asking: (context) => letter(context, "?", 12),
  running: (context) => {
    context.moveTo(-2.8, -4.2);
    context.lineTo(4.2, 0);
    context.lineTo(-2.8, 4.2);
    context.fill();
  },
  queued: (context) => {
    for (const x of [-4, 0, 4]) context.fillRect(x - 1.1, -1.1, 2.2, 2.2);
  },
};

function stroke(context, ...points) {
  context.beginPath();
  for (const point of points) context.lineTo(...point);
  context.stroke();
}

function letter(context, text, pixels) {
  context.font = font(pixels, "bold");
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, 0, 0.5);
}

// What happened: a symbol on a disc of the page's background, so that it stands out from any bar.
export function drawMark(context, kind, x, y, isFocused = false) {
  context.save();
  context.translate(x, y);
  context.fillStyle = colour("--back");
  context.beginPath();
  context.arc(0, 0, 7.5, 0, 7);
  context.fill();
  context.strokeStyle = context.fillStyle = colour(MARKS[kind].colour);
  context.lineWidth = 1.4;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  MARK_PATHS[kind](context);
  if (isFocused) ring(context);
  context.restore();
}

function ring(context) {
  context.strokeStyle = colour("--focus");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(0, 0, 9, 0, 7);
  context.stroke();
}

const triangle = (context) => {
  context.moveTo(0, -5);
  context.lineTo(5.2, 4.2);
  context.lineTo(-5.2, 4.2);
  context.closePath();
};

const MARK_PATHS = {
  input: (context) => {
    context.arc(0, 0, 6.2, 0, 7);
    context.fill();
    context.fillStyle = colour("--back");
    letter(context, "?", 10);
  },
  matched: (context) => {
    context.moveTo(0, -5);
    context.lineTo(5, 0);
    context.lineTo(0, 5);
    context.lineTo(-5, 0);
    context.fill();
  },
  limit_near: (context) => {
    triangle(context);
    context.stroke();
  },
  limit_hit: (context) => {
    triangle(context);
    context.fill();
    context.stroke();
    context.fillStyle = colour("--back");
    context.fillRect(-0.8, -2, 1.6, 3.4);
    context.fillRect(-0.8, 2.2, 1.6, 1.5);
  },
  restarting: (context) => {
    context.arc(0, 0, 4.2, -0.9, 4);
    context.stroke();
    context.beginPath();
    context.moveTo(5.6, -5.4);
    context.lineTo(4.6, -1.2);
    context.lineTo(1, -3.8);
    context.fill();
  },
  typed: (context) => {
    stroke(context, [-2.6, -5], [2.6, -5]);
    stroke(context, [0, -5], [0, 5]);
    stroke(context, [-2.6, 5], [2.6, 5]);
  },
};

// A canvas of its own with one symbol, for texts: decoration, for the words are beside it.
export function symbol(kind) {
  const canvas = element("canvas", { class: "symbol", "aria-hidden": "true" });
  canvas.draw = () => {
    const { context, width, height } = fitted(canvas);
    context.clearRect(0, 0, width, height);
    if (WAYS[kind]) drawWay(context, kind, width / 2, height / 2);
    else drawMark(context, kind, width / 2, height / 2);
  };
  canvas.width = canvas.height = SIZE;
  return canvas;
}

// Symbols are drawn when they are in the page, and again when its colours change.
export function drawSymbols(place) {
  for (const canvas of place.querySelectorAll("canvas.symbol")) canvas.draw?.();
}
