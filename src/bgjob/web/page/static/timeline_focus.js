// The timeline by keys: which job, and which of its marks, has the focus.

import { write } from "./element.js";
import { told } from "./lanes.js";
import { HEAD } from "./timeline_drawing.js";
import { jobCard } from "./timeline_words.js";
import { title } from "./words.js";

const STEP = 0.2;

export class LaneFocus {
  constructor(view) {
    this.view = view;
    this.at = null; // {id, mark}: mark is a place among the marks of the job, -1 for the job itself
  }

  onFocus() {
    const { scroll, lanes, drawing, isPacked } = this.view;
    if (!scroll.matches(":focus-visible") || this.at || !lanes.length) return;
    this.go(isPacked ? 0 : Math.floor(scroll.scrollTop / drawing.lane.height));
  }

  onBlur() {
    this.at = null;
    this.view.card.hide();
    this.view.redraw();
  }

  // A job that is not shown any more loses it.
  check() {
    if (this.at && this.place() < 0) this.at = null;
  }

  place() {
    return this.at ? this.view.lanes.findIndex((row) => row.id === this.at.id) : -1;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.keys()[event.shiftKey ? `Shift${event.key}` : event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  keys() {
    const { lanes, scroll, drawing, app } = this.view;
    const at = this.place();
    const inSight = Math.max(1, Math.floor(scroll.clientHeight / drawing.lane.height) - 1);
    return {
      ArrowDown: () => this.go(at + 1),
      ArrowUp: () => this.go(at - 1),
      PageDown: () => this.go(at + inSight),
      PageUp: () => this.go(at - inSight),
      Home: () => this.go(0),
      End: () => this.go(lanes.length - 1),
      ArrowRight: () => this.goToMark(at, 1),
      ArrowLeft: () => this.goToMark(at, -1),
      ShiftArrowRight: () => this.view.shift(STEP),
      ShiftArrowLeft: () => this.view.shift(-STEP),
      Enter: () => at >= 0 && app.go({ job: this.at.id }),
    };
  }

  go(place, mark = -1) {
    const { lanes, scroll, drawing, laneOf } = this.view;
    const at = Math.max(0, Math.min(lanes.length - 1, place));
    const row = lanes[at];
    if (!row) return;
    this.at = { id: row.id, mark };
    const height = drawing.lane.height;
    const top = drawing.topOf(row, at, laneOf);
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    if (top + height > scroll.scrollTop + scroll.clientHeight)
      scroll.scrollTop = top + height - scroll.clientHeight;
    this.view.draw();
    this.show(row);
  }

  goToMark(at, step) {
    if (at < 0) return this.go(0);
    const places = [-1, ...this.marksInSight()];
    const next = places[places.indexOf(this.at.mark) + step];
    if (next !== undefined) this.go(at, next);
  }

  marksInSight() {
    const [from, to] = this.view.shown;
    const isInSight = (mark) => mark.at >= from && mark.at <= to;
    return this.marks().flatMap((mark, at) => (isInSight(mark) ? [at] : []));
  }

  marks() {
    return this.view.events.byJob.get(this.at.id) ?? [];
  }

  show(row) {
    const { drawing, card, said } = this.view;
    const lane = drawing.drawn.find((each) => each.row.id === row.id);
    const mark = this.marks()[this.at.mark] ?? null;
    if (!lane) return;
    const x = mark ? drawing.x(mark.at) : Math.max(drawing.left, Math.min(drawing.right, lane.bar[0]));
    card.show(x, lane.y + HEAD + lane.height, ...jobCard(row, mark));
    write(said, mark ? `${title(row)} ${mark.words}` : told(row, Date.now() / 1000));
  }
}
