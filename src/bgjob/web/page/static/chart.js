// What the charts share: a canvas as sharp as the screen, the colours of the sheet, axes, the card beside the
// pointer.

import { element } from "./element.js";
import { clock } from "./words.js";

const schemes = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((query) => matchMedia(query));
const colours = new Map();

// The value of a variable of the sheet. It is asked for once for each scheme of colours: asking costs a style
// pass.
export function colour(name) {
  if (!colours.has(name))
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}

// `act` is called when the scheme of colours changes. Answers a function that ends it.
export function onScheme(act) {
  for (const scheme of schemes) scheme.addEventListener("change", act);
  return () => schemes.forEach((scheme) => scheme.removeEventListener("change", act));
}

onScheme(() => colours.clear());

export const font = (pixels, weight = "") =>
  `${weight} ${pixels}px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif`.trim();

// The canvas's pixels are those of the screen; what is drawn is measured in those of the sheet.
export function fitted(canvas) {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const ratio = devicePixelRatio;
  const context = canvas.getContext("2d");
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

// A line of one pixel lies on pixels, not between two.
export const crisp = (place) => Math.round(place) + 0.5;

// -- axes ------------------------------------------------------------------------------------------

const DAY_S = 86400;
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
const STEPS_DAYS = [1, 2, 7, 14];
const STEPS_MONTHS = [1, 3, 12];
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// At most so many places of an axis of time, at round local times: [{at, text, isDay}]. isDay: a day begins.
export function timeTicks(from, to, most) {
  const least = (to - from) / Math.max(1, most);
  const seconds = STEPS_S.find((step) => step >= least);
  if (seconds) return ticksWithinDays(from, to, seconds);
  const days = STEPS_DAYS.find((step) => step * DAY_S >= least);
  return days
    ? ticksOfDays(from, to, days)
    : ticksOfMonths(from, to, STEPS_MONTHS.find((step) => step * 30 * DAY_S >= least) ?? 12);
}

const seconds = (date) => date.getTime() / 1000;
const midnight = (date, days = 0) => new Date(date.getFullYear(), date.getMonth(), date.getDate() + days);

// Counted from each midnight: where the clock is set forward or back, the hours stay round.
function ticksWithinDays(from, to, step) {
  const ticks = [];
  for (let day = midnight(new Date(from * 1000)); seconds(day) <= to; day = midnight(day, 1)) {
    const next = seconds(midnight(day, 1));
    const first = Math.max(0, Math.ceil((from - seconds(day) - 3600) / step) * step);
    for (let passed = first; passed < DAY_S; passed += step) {
      const at = seconds(new Date(day.getFullYear(), day.getMonth(), day.getDate(), 0, 0, passed));
      if (at > to || at >= next) break;
      if (at < from || at <= ticks.at(-1)?.at) continue;
      ticks.push(
        passed
          ? { at, text: clock(at).slice(0, step < 60 ? 8 : 5), isDay: false }
          : { at, text: dayText(day), isDay: true },
      );
    }
  }
  return ticks;
}

function ticksOfDays(from, to, step) {
  const ticks = [];
  for (let day = midnight(new Date(from * 1000)); seconds(day) <= to; day = midnight(day, 1)) {
    const number = Math.round(Date.UTC(day.getFullYear(), day.getMonth(), day.getDate()) / (DAY_S * 1000));
    // + 3: weeks begin on Monday
    if ((number + 3) % step === 0 && seconds(day) >= from)
      ticks.push({ at: seconds(day), text: dayText(day), isDay: true });
  }
  return ticks;
}

function ticksOfMonths(from, to, step) {
  const ticks = [];
  const first = new Date(from * 1000);
  for (let month = Math.floor(first.getMonth() / step) * step; ; month += step) {
    const date = new Date(first.getFullYear(), month, 1);
    if (seconds(date) > to) return ticks;
    const text = date.getMonth() ? MONTHS[date.getMonth()] : String(date.getFullYear());
    if (seconds(date) >= from) ticks.push({ at: seconds(date), text, isDay: !date.getMonth() });
  }
}

export const dayText = (date) => `${WEEKDAYS[date.getDay()]} ${date.getDate()} ${MONTHS[date.getMonth()]}`;

// Round values from 0 on, the last at or above `most`: about `count` steps. `base`: 1024 for bytes.
export function valueTicks(most, count, base = 1000, isWhole = false) {
  const step = roundUp(most / count, base, isWhole);
  const ticks = [0];
  while (ticks.at(-1) < most * (1 - 1e-9)) ticks.push(ticks.length * step);
  return ticks;
}

// 1, 2 or 5 of a unit, ten or a hundred of it; the units are powers of the base.
function roundUp(value, base, isWhole) {
  const unit = isWhole ? 1 : base ** Math.floor(Math.log(value) / Math.log(base) + 1e-9);
  for (let power = unit; ; power *= 10) {
    if (!isWhole && power >= 1000 * unit) return base * unit;
    const found = [1, 2, 5].find((each) => each * power >= value * (1 - 1e-9));
    if (found) return found * power;
  }
}

// -- the card --------------------------------------------------------------------------------------

// Facts beside the pointer, within the box that it is put in.
export class Card {
  constructor(box) {
    this.box = box;
    this.node = element("div", { class: "chart-card", hidden: true });
    box.append(this.node);
  }

  show(x, y, ...content) {
    this.node.replaceChildren(...content);
    this.node.hidden = false;
    const room = this.box.clientWidth - this.node.offsetWidth - 4;
    const below = y + 18;
    const fits = below + this.node.offsetHeight <= this.box.clientHeight;
    const left = x + 14 <= room ? x + 14 : x - this.node.offsetWidth - 14;
    this.node.style.left = `${Math.max(4, Math.min(room, left))}px`;
    this.node.style.top = `${fits ? below : Math.max(4, y - this.node.offsetHeight - 14)}px`;
  }

  hide() {
    this.node.hidden = true;
  }

  get isShown() {
    return !this.node.hidden;
  }
}
