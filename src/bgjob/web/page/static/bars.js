// The bars of the timeline. Each way a job can go has a pattern of its own besides its colour.

import { colour } from "./chart.js";
import { WAYS } from "./lanes.js";

// A text on it needs an edge around its letters.
export const isPatterned = (way) => !["plain", "open"].includes(WAYS[way].pattern);

// Completed and running are light, what went wrong is heavy.
export function paintBar(context, way, x, y, width, height) {
  const { colour: name, fill, pattern } = WAYS[way];
  context.fillStyle = context.strokeStyle = colour(name);
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(3, width / 2));
  context.globalAlpha = width < 5 ? 1 : fill;
  context.fill();
  context.globalAlpha = 1;
  if (width < 5) return;
  context.save();
  context.clip();
  PATTERNS[pattern]?.(context, x, y, width, height);
  context.restore();
  context.lineWidth = 1.2;
  context.setLineDash(pattern === "dashed" ? [4, 3] : []);
  context.beginPath();
  context.roundRect(x + 0.6, y + 0.6, width - 1.2, height - 1.2, 3);
  context.stroke();
  context.setLineDash([]);
}

const PATTERNS = {
  striped: (context, x, y, width, height) => slanted(context, x, y, width, height, 6),
  crossed: (context, x, y, width, height) => {
    slanted(context, x, y, width, height, 7);
    context.scale(-1, 1);
    slanted(context, -x - width, y, width, height, 7);
  },
  open: (context, x, y, width, height) => {
    if (width < 16) return;
    context.beginPath();
    context.moveTo(x + width - 8, y + 2);
    context.lineTo(x + width - 2, y + height / 2);
    context.lineTo(x + width - 8, y + height - 2);
    context.fill();
  },
  dotted: (context, x, y, width, height) => {
    for (let at = x - (x % 6) + 6; at < x + width; at += 6)
      context.fillRect(at - 1, y + height / 2 - 1, 2, 2);
  },
};

// Lines from fixed places of the page, so that they stand still while a bar grows.
function slanted(context, x, y, width, height, step) {
  context.lineWidth = 1.3;
  context.beginPath();
  for (let at = Math.floor((x - height) / step) * step; at < x + width; at += step) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
}
