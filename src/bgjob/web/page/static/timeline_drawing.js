// The timeline's two canvases: its head (how many jobs at once, the axis) and its lanes. Only lanes in sight
// are drawn.

import { isPatterned, paintBar } from "./bars.js";
import { colour, crisp, dayText, fitted, font, timeTicks } from "./chart.js";
import { iconOf } from "./icons.js";
import { beganAt, endedAt, WAYS, wayOf } from "./lanes.js";
import { drawIcon, drawMark } from "./symbols.js";
import { count, title } from "./words.js";

export const HEAD = 58;
const COUNTS = 32; // pixels of the head that tell how many jobs ran at once
const NARROW = 640;
const GUTTER_MOST = 230;
const GUTTER_SHARE = 0.26;
const PAD = 8;
const LANE = { height: 24, bar: 13, middle: 12 };
const NARROW_LANE = { height: 38, bar: 12, middle: 27 };
const LEAST_NAME = 34;
const LEAST_BAR = 3;
const LOST_BAR = 20;
const TICK_PIXELS = 84;
const MARK_PIXELS = 9;
const NEAR = 7;

// What is drawn: {from, to, now, rows, laneOf, marksOf: Map of id to marks, scrolled, hovered: id,
// focused: {id, mark}, selected: [x, x]}. laneOf: Map of id to lane; with it, jobs share lanes, and have
// their names in their bars.
export class Drawing {
  constructor(head, body) {
    Object.assign(this, { head, body });
    this.drawn = []; // of each job in sight: {row, way, y, height, middle, bar: [x0, x1], marks: [{mark, x}]}
    this.shortened = new Map();
    this.measure();
  }

  measure(isPacked = false) {
    this.width = this.body.clientWidth;
    this.isPacked = isPacked;
    this.isNarrow = this.width < NARROW;
    this.hasNamesAbove = this.isNarrow && !isPacked;
    this.lane = this.hasNamesAbove ? NARROW_LANE : LANE;
    this.gutter = this.isNarrow || isPacked ? 0 : Math.min(GUTTER_MOST, this.width * GUTTER_SHARE);
    this.left = this.gutter || PAD;
    this.right = this.width - PAD;
    this.shortened.clear();
  }

  // How high all lanes are.
  heightOf(rows, laneOf) {
    const count = laneOf
      ? rows.reduce((most, row) => Math.max(most, laneOf.get(row.id) + 1), 0)
      : rows.length;
    return count * this.lane.height;
  }

  topOf = (row, at, laneOf) => (laneOf ? laneOf.get(row.id) : at) * this.lane.height;

  x = (at) =>
    this.left + ((at - this.scene.from) / (this.scene.to - this.scene.from)) * (this.right - this.left);

  draw(scene) {
    this.scene = scene;
    this.ticks = timeTicks(scene.from, scene.to, (this.right - this.left) / TICK_PIXELS);
    this.drawHead();
    this.drawLanes();
  }

  // -- the head --------------------------------------------------------------------------------------

  drawHead() {
    const { context, width, height } = fitted(this.head);
    context.clearRect(0, 0, width, height);
    this.drawCounts(context);
    this.drawTicks(context, COUNTS, height);
    context.textBaseline = "middle";
    for (const tick of this.ticks) this.drawTickText(context, tick);
    this.drawSelected(context, height);
    this.drawNow(context, 0, height, true);
    context.strokeStyle = colour("--line");
    context.lineWidth = 1;
    line(context, 0, crisp(height - 1), width, crisp(height - 1));
  }

  drawTickText(context, { at, text, isDay }) {
    context.font = font(11.5, isDay ? "600" : "");
    context.fillStyle = colour(isDay ? "--front" : "--quiet");
    const half = context.measureText(text).width / 2;
    const x = this.x(at);
    if (x - half < this.left - 4 || x + half > this.width) return;
    context.textAlign = "center";
    context.fillText(text, x, COUNTS + 13);
  }

  // How many jobs ran at each moment, and where jobs went wrong.
  drawCounts(context) {
    const columns = Math.max(1, Math.floor(this.right - this.left));
    const change = new Float64Array(columns + 2);
    const wrong = new Set();
    const column = (at) => Math.min(columns, Math.max(0, Math.floor(this.x(at) - this.left)));
    for (const row of this.scene.rows) {
      const began = beganAt(row);
      const ended = endedAt(row, this.scene.now);
      if (began === null || ended < this.scene.from || began > this.scene.to) continue;
      change[column(began)] += 1;
      change[Math.max(column(began), column(ended)) + 1] -= 1;
      if (WAYS[wayOf(row)].isBad && ended <= this.scene.to) wrong.add(column(ended));
    }
    const most = this.countsPath(context, change, columns);
    context.fillStyle = colour("--bad");
    for (const each of wrong) context.fillRect(this.left + each - 1, COUNTS - 5, 2, 5);
    context.strokeStyle = colour("--line");
    context.lineWidth = 1;
    line(context, this.left, crisp(COUNTS), this.right, crisp(COUNTS));
    this.drawCorner(context, most);
  }

  countsPath(context, change, columns) {
    let most = 0,
      now = 0;
    for (let at = 0; at < columns; at += 1) most = Math.max(most, (now += change[at]));
    if (!most) return 0;
    context.beginPath();
    context.moveTo(this.left, COUNTS);
    now = 0;
    for (let at = 0; at < columns; at += 1) {
      now += change[at];
      const y = COUNTS - (now / most) * (COUNTS - 8);
      context.lineTo(this.left + at, y);
      context.lineTo(this.left + at + 1, y);
    }
    context.lineTo(this.right, COUNTS);
    context.fillStyle = colour("--run");
    context.globalAlpha = 0.22;
    context.fill();
    context.globalAlpha = 1;
    return most;
  }

  drawCorner(context, most) {
    context.fillStyle = colour("--quiet");
    context.font = font(11.5);
    context.textBaseline = "middle";
    context.textAlign = "left";
    if (!this.gutter) return most > 1 && context.fillText(`up to ${most} at once`, this.left, 7);
    if (most) context.fillText(`up to ${count(most, "job")} at once`, 10, COUNTS / 2 + 3);
    if (this.ticks.some((tick) => tick.isDay)) return;
    context.font = font(11.5, "600");
    context.fillStyle = colour("--front");
    context.fillText(dayText(new Date(this.scene.from * 1000)), 10, COUNTS + 13);
  }

  // -- the lanes -------------------------------------------------------------------------------------

  drawLanes() {
    const { context, width, height } = fitted(this.body);
    const { rows, laneOf, scrolled } = this.scene;
    const end = Math.min(height, this.heightOf(rows, laneOf) - scrolled);
    context.clearRect(0, 0, width, height);
    this.drawTicks(context, 0, height);
    this.drawRules(context, end);
    this.drawn = [];
    for (const at of this.inSight(height)) {
      this.drawn.push(this.drawLane(context, rows[at], this.topOf(rows[at], at, laneOf) - scrolled));
    }
    this.drawNow(context, 0, end, false);
    for (const each of this.drawn) this.drawMarks(context, each);
    // a canvas does not tell
    Object.assign(this.body, { drawn: this.drawn, span: [this.scene.from, this.scene.to] });
    this.drawSelected(context, height);
    context.strokeStyle = colour("--line");
    context.lineWidth = 1;
    if (this.gutter) line(context, crisp(this.gutter) - 1, 0, crisp(this.gutter) - 1, height);
  }

  // The places of the rows that are not scrolled away.
  inSight(height) {
    const { rows, laneOf, scrolled } = this.scene;
    const lane = this.lane.height;
    if (!laneOf)
      return range(
        Math.max(0, Math.floor(scrolled / lane)),
        Math.min(rows.length, Math.ceil((scrolled + height) / lane)),
      );
    const isInSight = (top) => top + lane > scrolled && top < scrolled + height;
    return range(0, rows.length).filter((at) => isInSight(this.topOf(rows[at], at, laneOf)));
  }

  // Lead the eye from a name to its bar.
  drawRules(context, end) {
    const lane = this.lane.height;
    context.strokeStyle = colour("--line");
    context.lineWidth = 1;
    context.globalAlpha = 0.4;
    for (let y = lane - (this.scene.scrolled % lane); y <= end; y += lane)
      line(context, 0, crisp(y) - 1, this.width, crisp(y) - 1);
    context.globalAlpha = 1;
  }

  drawLane(context, row, y) {
    const way = wayOf(row);
    const isFocused = this.scene.focused?.id === row.id;
    const lane = { row, way, y, height: this.lane.height, marks: [], middle: y + this.lane.middle };
    if (!this.isPacked && (isFocused || this.scene.hovered === row.id)) {
      context.fillStyle = colour("--raised");
      context.fillRect(0, y, this.width, lane.height - 1);
    }
    if (!this.isPacked) this.drawName(context, lane);
    context.save();
    context.beginPath();
    context.rect(this.left - 1, y, this.right - this.left + PAD, lane.height);
    context.clip();
    lane.bar = this.drawBar(context, lane);
    if (this.isPacked) this.drawNameInBar(context, lane);
    context.restore();
    if (isFocused && this.scene.focused.mark < 0) this.drawFocus(context, lane);
    return lane;
  }

  drawName(context, { row, way, y, middle }) {
    const at = this.hasNamesAbove ? y + 11 : middle;
    const begin = this.hasNamesAbove ? PAD + 18 : 28;
    drawIcon(context, iconOf(row), WAYS[way].colour, begin - 12, at);
    beginText(context);
    context.fillText(
      this.short(context, title(row), (this.gutter ? this.gutter - 6 : this.right) - begin),
      begin,
      at + 0.5,
    );
  }

  drawNameInBar(context, { row, way, bar, middle }) {
    const from = Math.max(bar[0], this.left) + 6;
    const width = Math.min(bar[1], this.right) - from - 6;
    if (width < LEAST_NAME) return;
    beginText(context, 11);
    const text = cut(context, title(row).slice(0, 60), width);
    context.strokeStyle = colour("--back");
    context.lineWidth = 3;
    if (isPatterned(way)) context.strokeText(text, from, middle + 0.5);
    context.fillText(text, from, middle + 0.5);
  }

  // Cut to a width, with an ellipsis. Measuring is dear: each text is measured once.
  short(context, text, width) {
    if (!this.shortened.has(text)) {
      if (this.shortened.size > 5000) this.shortened.clear();
      this.shortened.set(text, cut(context, text.slice(0, 120), width));
    }
    return this.shortened.get(text);
  }

  // Answers where it is: [x0, x1].
  drawBar(context, { row, way, middle }) {
    const began = beganAt(row);
    const x1 = this.x(endedAt(row, this.scene.now));
    if (began === null) return this.drawWaiting(context, row.created, x1, middle);
    if (began - row.created > 1) this.drawWaiting(context, row.created, this.x(began), middle);
    const x0 = this.x(began);
    const end = Math.max(x1, x0 + (way === "lost" ? LOST_BAR : LEAST_BAR));
    const height = this.lane.bar;

    // its ends lie out of sight where it begins before the span, or goes on behind it
    const from = Math.max(x0, this.left - 20);
    const to = Math.min(end, this.right + 20);
    if (to > from) paintBar(context, way, from, middle - height / 2, to - from, height);
    if (row.left) this.drawLeft(context, x1, middle);
    return [x0, end];
  }

  // In the queue: a thin line before the bar.
  drawWaiting(context, from, x1, y) {
    const x0 = this.x(from);
    context.strokeStyle = colour(WAYS.queued.colour);
    context.lineWidth = 2;
    context.setLineDash([]);
    line(context, x0, y, Math.max(x1, x0 + LEAST_BAR), y);
    line(context, x0 + 1, y - 3.5, x0 + 1, y + 3.5);
    return [x0, Math.max(x1, x0 + LEAST_BAR)];
  }

  // Processes that it left running.
  drawLeft(context, x, y) {
    context.strokeStyle = colour(WAYS.running.colour);
    context.lineWidth = 2;
    context.setLineDash([2, 3]);
    line(context, x, y, this.x(this.scene.now), y);
    context.setLineDash([]);
  }

  drawFocus(context, { bar: [x0, x1], middle }) {
    const half = this.lane.bar / 2 + 3;
    const from = Math.max(this.left, x0 - 3);
    const to = Math.min(this.right, x1 + 3);
    context.strokeStyle = colour("--focus");
    context.lineWidth = 2;
    if (to > from) context.strokeRect(from, middle - half, to - from, 2 * half);
    else context.strokeRect(2, middle - half, this.left - 4, 2 * half);
  }

  // Marks that lie on each other are drawn once for each kind.
  drawMarks(context, lane) {
    const lastOf = {};
    const { focused, marksOf } = this.scene;
    (marksOf.get(lane.row.id) ?? []).forEach((mark, at) => {
      const x = this.x(mark.at);
      const isFocused = focused?.id === lane.row.id && focused.mark === at;
      if (x < this.left - 2 || x > this.right + PAD) return;
      if (x - lastOf[mark.kind] < MARK_PIXELS && !isFocused) return;
      lastOf[mark.kind] = x;
      lane.marks.push({ mark, x });
      drawMark(context, mark.kind, x, lane.middle, isFocused);
    });
  }

  // -- both ------------------------------------------------------------------------------------------

  drawTicks(context, from, to) {
    context.lineWidth = 1;
    context.strokeStyle = colour("--line");
    for (const { at, isDay } of this.ticks) {
      context.globalAlpha = isDay ? 1 : 0.55;
      line(context, crisp(this.x(at)), from, crisp(this.x(at)), to);
    }
    context.globalAlpha = 1;
  }

  drawNow(context, from, to, isHead) {
    const x = crisp(this.x(this.scene.now));
    if (x < this.left || x > this.width) return;
    context.strokeStyle = context.fillStyle = colour("--run");
    context.lineWidth = 1;
    line(context, x, from, x, to);
    if (!isHead) return;
    context.beginPath();
    context.moveTo(x - 4, COUNTS + 20);
    context.lineTo(x + 4, COUNTS + 20);
    context.lineTo(x, COUNTS + 26);
    context.fill();
  }

  drawSelected(context, height) {
    if (!this.scene.selected) return;
    const [from, to] = [...this.scene.selected]
      .sort((a, b) => a - b)
      .map((x) => Math.max(this.left, Math.min(this.right, x)));
    context.fillStyle = context.strokeStyle = colour("--focus");
    context.globalAlpha = 0.13;
    context.fillRect(from, 0, to - from, height);
    context.globalAlpha = 1;
    context.lineWidth = 1;
    for (const x of [from, to]) line(context, crisp(x), 0, crisp(x), height);
  }

  // -- what is where ---------------------------------------------------------------------------------

  // {lane, mark, isOn}: the job at this place; isOn: at its name, its bar or a mark of it.
  hit(x, y) {
    const lanes = this.drawn
      .filter((each) => y >= each.y && y < each.y + each.height)
      .sort((a, b) => away(x, a.bar) - away(x, b.bar));
    const marks = lanes
      .flatMap((lane) => lane.marks.map((each) => ({ ...each, lane })))
      .filter((each) => Math.abs(each.x - x) <= NEAR);
    const near = marks.sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x))[0];
    const lane = near?.lane ?? lanes[0];
    if (!lane) return null;
    const isOnName = x < this.gutter || (this.hasNamesAbove && y < lane.y + 20);
    return { lane, mark: near?.mark ?? null, isOn: Boolean(near) || isOnName || away(x, lane.bar) <= NEAR };
  }
}

const away = (x, [from, to]) => Math.max(0, from - x, x - to);

const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at);

function beginText(context, pixels = 12.5) {
  context.font = font(pixels);
  context.fillStyle = colour("--front");
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.lineJoin = "round";
}

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let from = 0,
    to = text.length;
  while (from < to) {
    const middle = Math.ceil((from + to) / 2);
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) from = middle;
    else to = middle - 1;
  }
  return `${text.slice(0, from)}…`;
}
