// A small line of the last values, as big as its canvas is in the page. null: not known, a gap in the line.
//
//     sparkline(canvas, series.cpu, { most: 100, colour: "--run" })

import { colour as colourOf, fitted } from "./chart.js";

const POINTS = 60;

// `most`: the value at the top; without it, the largest one that is drawn. `points`: how many fill the width.
export function sparkline(canvas, values, { most = 0, colour = "--run", points = POINTS } = {}) {
  const { context, width, height } = fitted(canvas);
  context.clearRect(0, 0, width, height);
  if (!width || !height) return;
  const shown = values.slice(-points);
  const top = Math.max(most, most ? 0 : Math.max(0, ...shown)) || 1;
  const step = width / (points - 1);
  const first = width - (shown.length - 1) * step;
  const x = (at) => first + at * step;
  const y = (value) => height - 1 - Math.min(1, value / top) * (height - 2.5);
  context.strokeStyle = context.fillStyle = colourOf(colour);
  context.lineWidth = 1.25;
  context.lineJoin = "round";
  for (const [from, to] of runs(shown)) {
    context.beginPath();
    for (let at = from; at < to; at += 1) context.lineTo(x(at), y(shown[at]));
    if (to - from === 1) context.lineTo(x(from) + 1, y(shown[from]));
    context.stroke();
    context.lineTo(x(Math.max(from, to - 1)), height);
    context.lineTo(x(from), height);
    context.globalAlpha = 0.14;
    context.fill();
    context.globalAlpha = 1;
  }
}

// [from, to) of the values that follow each other without a gap.
export function runs(values) {
  const found = [];
  let from = -1;
  for (let at = 0; at <= values.length; at += 1) {
    const isKnown = at < values.length && values[at] !== null && values[at] !== undefined;
    if (isKnown && from < 0) from = at;
    if (!isKnown && from >= 0) {
      found.push([from, at]);
      from = -1;
    }
  }
  return found;
}
