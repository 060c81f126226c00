// One chart of values over time: lines, or areas on top of each other, with limits as dashed lines.

import { colour, crisp, fitted, font, timeTicks, valueTicks } from "./chart.js";
import { element } from "./element.js";

const TOP = 14;
const BOTTOM = 22;
const RIGHT = 10;
const TICK_PIXELS = 90;
const LABEL_PIXELS = 14;
const LEFT = 62;
// A gap in time that is longer is a gap in the line.
const GAP_S = 10;
// A limit that is higher than so many times what is used is told in words: the rest would be too small.
const LIMIT_TIMES = 5;

// `words` of a value; `base` of its units: 1000 or 1024; isStacked: the lines add up; isStep: values stay
// until the next; isWhole: of things that are counted.
export class LineChart {
  constructor({ title, words, base = 1000, isStacked = false, isStep = false, isWhole = false }) {
    Object.assign(this, { title, words, base, isStacked, isStep, isWhole });
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.value = element("strong");
    this.note = element("span", { class: "quiet" });
    this.node = element(
      "figure",
      { class: "chart" },
      element("figcaption", {}, element("h3", {}, title), this.value, this.note),
      this.canvas,
    );
  }

  // {from, to, times, lines: [{id, name, colour, values}], limits: [{value, text, colour, isLoose}],
  // cursor: a time or null}.
  // A limit that is too high for the scale is told in words, or, if it is loose, not at all.
  draw(scene) {
    this.scene = scene;
    const { context, width, height } = fitted(this.canvas);
    context.clearRect(0, 0, width, height);
    if (!width) return;
    this.bands = this.isStacked ? stacked(scene) : scene.lines.map((line) => ({ ...line, low: null }));
    this.scale(width, height);
    this.drawAxes(context, width);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.right - this.left + 1, height);
    context.clip();
    for (const band of this.bands) this.drawBand(context, band);
    context.restore();
    this.drawLimits(context);
    this.drawNames(context);
    this.drawCursor(context, height);
    this.canvas.drawn = this; // a canvas does not tell
  }

  scale(width, height) {
    const most = this.bands.reduce((most, band) => band.values.reduce((a, b) => (b > a ? b : a), most), 0);
    this.shown = this.scene.limits.filter((limit) => limit.value <= Math.max(most, 1e-9) * LIMIT_TIMES);
    const top =
      Math.max(most, ...this.shown.map((limit) => limit.value)) || (this.base === 1024 ? 1024 ** 2 : 4);
    this.most = top * 1.08;
    const count = Math.max(2, Math.round((height - TOP - BOTTOM) / 44));
    this.ticks = valueTicks(this.most, count, this.base, this.isWhole).filter((tick) => tick <= this.most);
    Object.assign(this, { left: LEFT, right: width - RIGHT, top: TOP, bottom: height - BOTTOM });
  }

  x = (at) =>
    this.left + ((at - this.scene.from) / (this.scene.to - this.scene.from)) * (this.right - this.left);
  y = (value) => this.bottom - (value / this.most) * (this.bottom - this.top);
  at = (x) =>
    this.scene.from + ((x - this.left) / (this.right - this.left)) * (this.scene.to - this.scene.from);

  drawAxes(context, width) {
    context.font = font(11);
    context.fillStyle = colour("--quiet");
    context.strokeStyle = colour("--line");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of this.ticks) {
      const y = crisp(this.y(tick));
      level(context, this.left, this.right, y);
      context.fillText(this.words(tick), this.left - 6, y);
    }
    context.textAlign = "center";
    for (const { at, text } of timeTicks(
      this.scene.from,
      this.scene.to,
      (this.right - this.left) / TICK_PIXELS,
    )) {
      const x = this.x(at);
      const half = context.measureText(text).width / 2;
      if (x - half >= this.left - 12 && x + half <= width) context.fillText(text, x, this.bottom + 13);
    }
  }

  drawBand(context, { values, low, colour: name }) {
    const { times } = this.scene;
    context.strokeStyle = context.fillStyle = colour(name);
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    for (const [from, to] of pieces(times, values, this.isStep ? Infinity : GAP_S)) {
      context.beginPath();
      this.trace(context, values, from, to);
      context.stroke();
      for (let at = to - 1; at >= from; at -= 1)
        context.lineTo(this.x(times[at]), low ? this.y(low[at]) : this.bottom);
      context.globalAlpha = low ? 0.3 : 0.07;
      context.fill();
      context.globalAlpha = 1;
    }
  }

  trace(context, values, from, to) {
    const { times } = this.scene;
    for (let at = from; at < to; at += 1) {
      if (this.isStep && at > from) context.lineTo(this.x(times[at]), this.y(values[at - 1]));
      context.lineTo(this.x(times[at]), this.y(values[at]));
    }
    if (to - from === 1) context.lineTo(this.x(times[from]) + 1.5, this.y(values[from]));
  }

  // Those that are too high for the scale are told at its top.
  drawLimits(context) {
    context.font = font(11);
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.lineWidth = 1.3;
    const places = [];
    for (const limit of this.scene.limits.filter((each) => !each.isLoose || this.shown.includes(each))) {
      const isShown = this.shown.includes(limit);
      const y = isShown ? crisp(this.y(limit.value)) : this.top - 1;
      context.strokeStyle = context.fillStyle = colour(limit.colour ?? "--bad");
      context.setLineDash([6, 4]);
      if (isShown) level(context, this.left, this.right, y);
      context.setLineDash([]);
      const place = freePlace(places, Math.max(11, y - 2));
      if (place !== null) context.fillText(`${isShown ? "" : "↑ "}${limit.text}`, this.left + 4, place);
    }
  }

  // Names beside the lines: colours alone do not tell who is who.
  drawNames(context) {
    context.font = font(11, "600");
    context.textAlign = "right";
    context.textBaseline = "middle";
    const places = this.shown.map((limit) => this.y(limit.value) - 6);
    for (const band of [...this.bands].reverse()) {
      const value = band.values.at(-1);
      const low = band.low?.at(-1) ?? 0;
      if (!(value > 0) || !band.name) continue;
      const isBand = Boolean(band.low);
      const y = isBand ? (this.y(value) + this.y(low)) / 2 : this.y(value) - 8;
      if (isBand && this.y(low) - this.y(value) < LABEL_PIXELS) continue;
      const place = freePlace(places, Math.max(8, y), 0);
      if (place === null) continue;
      context.lineWidth = 3;
      context.strokeStyle = colour("--back");
      context.fillStyle = colour(band.colour);
      const name = band.name.length > 24 ? `${band.name.slice(0, 23)}…` : band.name;
      context.strokeText(name, this.right - 6, place);
      context.fillText(name, this.right - 6, place);
    }
  }

  drawCursor(context, height) {
    const { cursor } = this.scene;
    if (cursor === null) return;
    const place = this.placeAt(cursor);
    const isNear = this.isNear(place, cursor);
    const x = crisp(this.x(isNear && !this.isStep ? this.scene.times[place] : cursor));
    context.strokeStyle = colour("--edge-line");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, this.top);
    context.lineTo(x, height - BOTTOM);
    context.stroke();
    for (const band of this.bands) {
      if (!isNear || !(band.values[place] >= 0)) continue;
      context.fillStyle = colour(band.colour);
      context.beginPath();
      context.arc(x, this.y(band.values[place]), 3, 0, 7);
      context.fill();
    }
  }

  // -- what is where ---------------------------------------------------------------------------------

  // The place among the times: of steps, the last one before it; else the nearest.
  placeAt(time) {
    const { times } = this.scene;
    let from = 0,
      to = times.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (times[middle] <= time) from = middle + 1;
      else to = middle;
    }
    const before = Math.max(0, from - 1);
    return !this.isStep && from < times.length && times[from] - time < time - times[before] ? from : before;
  }

  isNear = (place, time) => this.isStep || Math.abs(this.scene.times[place] - time) < GAP_S;

  // [{name, colour, value}] at a time, the largest first; nothing where no sample is near.
  valuesAt(time) {
    const place = this.placeAt(time);
    if (!this.isNear(place, time)) return [];
    return this.scene.lines
      .map(({ name, colour: own, values }) => ({ name, colour: own, value: values[place] }))
      .filter((each) => !Number.isNaN(each.value) && each.value !== undefined)
      .sort((a, b) => b.value - a.value);
  }

  // The line or area that is there.
  lineAt(x, y) {
    const place = this.placeAt(this.at(x));
    if (this.isStacked)
      return (
        this.bands.find((band) => y >= this.y(band.values[place]) && y <= this.y(band.low[place])) ?? null
      );
    const near = this.bands
      .map((band) => [Math.abs(this.y(band.values[place]) - y), band])
      .filter(([away]) => away <= 8);
    return near.sort((a, b) => a[0] - b[0])[0]?.[1] ?? null;
  }
}

function level(context, from, to, y) {
  context.beginPath();
  context.moveTo(from, y);
  context.lineTo(to, y);
  context.stroke();
}

// Each line lies on those before it. What is not known counts as nothing there.
function stacked({ lines, times }) {
  let low = new Float64Array(times.length);
  return lines.map((line) => {
    const values = low.map((base, at) => (Number.isNaN(line.values[at]) ? base : base + line.values[at]));
    const band = { ...line, low, values };
    low = values;
    return band;
  });
}

// [from, to) of the values that are known and follow each other closely.
function pieces(times, values, gap) {
  const found = [];
  let from = -1;
  for (let at = 0; at < times.length; at += 1) {
    const isKnown = !Number.isNaN(values[at]);
    const isNear = from >= 0 && times[at] - times[at - 1] <= gap;
    if (from >= 0 && (!isKnown || !isNear)) {
      found.push([from, at]);
      from = -1;
    }
    if (isKnown && from < 0) from = at;
  }
  if (from >= 0) found.push([from, times.length]);
  return found;
}

// A height for a text that no other text has, near the one that is wanted; null: there is none.
function freePlace(places, wanted, most = 2) {
  for (let at = 0; at <= most; at += 1) {
    const place = wanted + at * LABEL_PIXELS;
    if (places.every((each) => Math.abs(each - place) >= LABEL_PIXELS - 1)) {
      places.push(place);
      return place;
    }
  }
  return null;
}
