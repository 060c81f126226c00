// The timeline: a lane for each job, and what happened in a span of time, drawn and in words.

import { Card, onScheme } from "./chart.js";
import { element, framed, write } from "./element.js";
import { gestures } from "./gestures.js";
import { filterOf, filterProblem } from "./jobs.js";
import { keep, kept } from "./kept.js";
import { endedAt, happenings, newestFirst, packed, summary, touches } from "./lanes.js";
import { between, moved, PRESETS, Span, zoomed } from "./span.js";
import { Controls, legend } from "./timeline_controls.js";
import { Drawing, HEAD } from "./timeline_drawing.js";
import { Events } from "./timeline_events.js";
import { LaneFocus } from "./timeline_focus.js";
import { jobCard, spanWords, WordsTable } from "./timeline_words.js";

const SETTLE_MS = 150;
const TICK_LEAST_MS = 250;
const TICK_MOST_MS = 10_000;
const TICK_CALM_MS = 1000;
const CLOSER = 0.6;
// A job has been quiet for so long: nothing more is written about it.
const QUIET_MS = 6000;
const KEYS =
  "Arrow up and down: jobs. Left and right: what happened to a job. Enter: opens it. " +
  "Shift with left and right: earlier and later. Plus and minus: closer and wider.";

export const open = (place, app, query) => new Timeline(place, app, query);

class Timeline {
  constructor(place, app, query) {
    Object.assign(this, { place, app });
    this.text = query.filter ?? "";
    this.isPacked = (query.lanes ?? kept("timeline lanes", "each")) === "packed";
    this.span = Span.inAddress(query); // null: one that fits, once the jobs are known
    this.isChosen = this.span !== null;
    this.before = []; // spans to go back to
    this.matching = null; // all rows that fit the filter, the newest first; null: to be found
    this.lanes = [];
    this.hovered = this.selected = null;
    this.changedAt = -Infinity;
    this.events = new Events(
      () => this.redraw(),
      (problem) => app.fail(problem),
    );
    this.build();
    this.find();
    this.redraw = framed(() => this.draw());
    this.ends = [app.jobs.onchange((_, what) => this.onRows(what)), onScheme(() => this.redraw())];
    const seen = () => this.redraw();
    document.addEventListener("visibilitychange", seen);
    this.sizes = new ResizeObserver(() => this.onSize());
    for (const node of [this.box, this.head]) this.sizes.observe(node);
    this.ends.push(
      () => document.removeEventListener("visibilitychange", seen),
      () => this.sizes.disconnect(),
    );
    this.redraw();
  }

  close() {
    for (const end of this.ends) end();
    this.events.close();
    clearTimeout(this.settleTimer);
    clearTimeout(this.tickTimer);
    this.isClosed = true;
  }

  // -- its nodes -------------------------------------------------------------------------------------

  build() {
    this.controls = new Controls(this);
    this.spanWords = element("strong");
    this.counts = element("span");
    this.summary = element("p", { class: "timeline-summary" }, this.spanWords, " ", this.counts);
    this.head = element("canvas", { class: "timeline-head", "aria-hidden": "true" });
    this.body = element("canvas", { "aria-hidden": "true" });
    this.height = element("div");
    this.scroll = element(
      "div",
      {
        class: "timeline-scroll",
        tabindex: "0",
        role: "application",
        "aria-label": "Timeline of jobs",
        "aria-description": KEYS,
        onscroll: () => this.redraw(),
        onkeydown: (event) => this.focus.onKey(event),
        onfocus: () => this.focus.onFocus(),
        onblur: () => this.focus.onBlur(),
      },
      this.height,
    );
    this.empty = element("p", { class: "note timeline-empty", hidden: true });
    this.box = element("div", { class: "timeline-body" }, this.body, this.scroll, this.empty);
    this.chart = element("div", { class: "timeline-chart" }, this.head, this.box);
    this.said = element("p", { class: "unseen", "aria-live": "polite" });
    this.words = new WordsTable();
    this.place.append(
      element("h2", { class: "unseen" }, "Timeline"),
      this.controls.node,
      this.summary,
      this.chart,
      legend(),
      this.words.node,
      this.said,
    );
    this.drawing = new Drawing(this.head, this.body);
    this.card = new Card(this.chart);
    this.focus = new LaneFocus(this);
    this.listen();
  }

  listen() {
    const common = {
      leave: () => this.hover(null),
      pan: (dx, dy) => this.pan(dx, dy),
      zoom: (factor, x) => this.zoom(factor, this.timeAt(x)),
      select: (from, to, isOver) => this.select(from, to, isOver),
      cancel: () => this.select(0, 0, false),
    };
    gestures(this.scroll, {
      ...common,
      selects: () => false,
      hover: (x, y) => this.hover(this.drawing.hit(x, y), x, y + HEAD),
      click: (x, y, isTouch) => this.click(this.drawing.hit(x, y), x, y + HEAD, isTouch),
    });
    gestures(this.head, { ...common, selects: () => true, hover: () => this.hover(null), click: () => {} });
  }

  // -- what it shows ---------------------------------------------------------------------------------

  onRows(what) {
    if (what !== "rows") return;
    this.matching = null;
    this.changedAt = performance.now();
    if (this.span?.isLive) this.events.tail(true);
    this.redraw();
  }

  setFilter(text) {
    this.text = text;
    this.matching = null;
    this.redraw();
  }

  setPacked(isPacked) {
    this.isPacked = isPacked;
    keep("timeline lanes", isPacked ? "packed" : "each");
    this.onSize();
  }

  onSize() {
    this.drawing.width = 0;
    this.redraw();
  }

  // The lane of each job where they share lanes; null: each has its own.
  get laneOf() {
    return this.isPacked ? (this.shared ??= packed(this.matching)) : null;
  }

  find() {
    this.matching = newestFirst([...this.app.jobs.rows.values()].filter(filterOf(this.text)));
    this.shared = null;
    this.oldest = this.matching.at(-1)?.created ?? Date.now() / 1000;
    if (!this.isChosen) this.span = fitting(this.matching);
    this.shown = this.span.at(Date.now() / 1000, this.oldest); // [from, to]
  }

  draw() {
    if (this.isClosed || document.hidden) return;
    if (!this.matching) this.find();
    const now = Date.now() / 1000;
    const [from, to] = (this.shown = this.span.at(now, this.oldest));
    this.lanes = this.matching.filter((row) => touches(row, from, to, now));
    this.layOut();
    this.focus.check();
    this.drawing.draw({
      from,
      to,
      now,
      rows: this.lanes,
      laneOf: this.laneOf,
      marksOf: this.events.byJob,
      scrolled: this.scroll.scrollTop,
      hovered: this.hovered?.lane.row.id,
      focused: this.focus.at,
      selected: this.selected,
    });
    this.settle();
    this.tick(from, to);
  }

  // The canvas is as wide as the lanes without their scrollbar, which comes and goes with their number.
  layOut() {
    const measure = () => {
      this.body.style.width = `${this.scroll.clientWidth}px`;
      this.drawing.measure(this.isPacked);
    };
    if (!this.drawing.width) measure();
    const least = 3 * this.drawing.lane.height;
    const height = `${Math.max(least, this.drawing.heightOf(this.lanes, this.laneOf))}px`;
    if (height === this.height.style.height) return;
    this.height.style.height = this.box.style.flexBasis = height;
    measure();
  }

  // The words, and what costs more than a frame has: at most every SETTLE_MS.
  settle() {
    this.settleTimer ||= setTimeout(() => {
      this.settleTimer = 0;
      if (!this.isClosed) this.settled();
    }, SETTLE_MS);
  }

  settled() {
    const now = Date.now() / 1000;
    const [from, to] = this.shown;
    this.events.cover(from, to, this.span.isLive);
    const marks = this.marksIn(from, to);
    write(this.spanWords, spanWords(this.span, from, to));
    const text = this.lanes.length ? summary(this.lanes, marks, now) : "no job";
    write(this.counts, this.app.jobs.isComplete ? text : `${text} … reading more jobs`);
    this.words.show(happenings(this.lanes, marks, from, to), this.events.hasMore);
    this.showEmpty();
    this.controls.show(this.span);
    this.keepAddress();
  }

  marksIn(from, to) {
    const found = [];
    for (const row of this.lanes) {
      for (const mark of this.events.byJob.get(row.id) ?? []) {
        if (mark.at >= from && mark.at <= to) found.push({ ...mark, row });
      }
    }
    return found;
  }

  showEmpty() {
    this.empty.hidden = this.lanes.length > 0;
    write(this.empty, this.whyEmpty());
  }

  whyEmpty() {
    const { rows, isComplete, problem } = this.app.jobs;
    if (problem) return problem;
    if (!rows.size)
      return isComplete ? "No job yet. A job that is started appears here." : "Reading the jobs …";
    if (!this.matching?.length) return filterProblem(this.text) ?? `No job fits “${this.text}”.`;
    return "No job in this span. All shows every job that is kept.";
  }

  keepAddress() {
    const span = this.isChosen ? this.span.address() : {};
    const lanes = this.isPacked ? "packed" : "each";
    const address = JSON.stringify([span, this.text, lanes]);
    if (address === this.address) return;
    if (this.address !== undefined)
      this.app.go({ view: "timeline", ...span, lanes, filter: this.text }, { replace: true });
    this.address = address;
  }

  // A live span moves on when that is seen: after a pixel's time.
  tick(from, to) {
    clearTimeout(this.tickTimer);
    if (!this.span.isLive) return;
    const pixel = ((to - from) / Math.max(1, this.drawing.right - this.drawing.left)) * 1000;
    const least = matchMedia("(prefers-reduced-motion: reduce)").matches ? TICK_CALM_MS : TICK_LEAST_MS;
    this.tickTimer = setTimeout(this.redraw, Math.min(TICK_MOST_MS, Math.max(least, pixel)));
    const isQuiet = performance.now() - this.changedAt > QUIET_MS;
    if (!isQuiet || this.lanes.some((row) => row.group !== "ended")) this.events.tail(false);
  }

  // -- the span --------------------------------------------------------------------------------------

  choose(span, { isRemembered = true } = {}) {
    if (isRemembered && this.span) this.before.push(this.span);
    this.span = span;
    this.isChosen = true;
    // at once: two fingers move more than once in a frame
    this.shown = span.at(Date.now() / 1000, this.oldest);
    this.redraw();
  }

  timeAt(x) {
    const [from, to] = this.shown;
    const { left, right } = this.drawing;
    return from + ((x - left) / (right - left)) * (to - from);
  }

  // Without a place, a live span stays live, and another one keeps its middle.
  zoom(factor, at) {
    const now = Date.now() / 1000;
    const [from, to] = this.shown;
    this.choose(zoomed([from, to], factor, at ?? (this.span.isLive ? now : (from + to) / 2), now), {
      isRemembered: false,
    });
  }

  closer = () => this.zoom(CLOSER);
  wider = () => this.zoom(1 / CLOSER);

  pan(dx, dy) {
    const [from, to] = this.shown;
    const seconds = (-dx * (to - from)) / (this.drawing.right - this.drawing.left);
    this.scroll.scrollTop -= dy;
    if (dx) this.choose(moved([from, to], seconds, Date.now() / 1000), { isRemembered: false });
  }

  // By a share of what is in sight.
  shift(share) {
    const [from, to] = this.shown;
    this.card.hide();
    this.choose(moved([from, to], share * (to - from), Date.now() / 1000), { isRemembered: false });
    this.say();
  }

  goLive() {
    const [from, to] = this.shown;
    this.choose(moved([from, to], Math.max(0, Date.now() / 1000 - to) + 1, Date.now() / 1000));
  }

  select(from, to, isOver) {
    this.selected = from === to ? null : [from, to];
    if (isOver && this.selected) {
      const [first, last] = [Math.min(from, to), Math.max(from, to)].map((x) => this.timeAt(x));
      this.selected = null;
      this.choose(between(first, last, Date.now() / 1000));
      this.say();
    }
    this.redraw();
  }

  goBack() {
    if (!this.before.length) return false;
    this.choose(this.before.pop(), { isRemembered: false });
    this.say();
    return true;
  }

  say() {
    setTimeout(() => !this.isClosed && write(this.said, this.summary.textContent), 2 * SETTLE_MS);
  }

  // -- jobs and marks --------------------------------------------------------------------------------

  hover(hit, x, y) {
    const isOn = hit?.isOn;
    this.scroll.style.cursor = isOn ? "pointer" : "";
    if (this.hovered?.lane.row.id !== hit?.lane.row.id) this.redraw();
    this.hovered = hit;
    if (isOn) this.card.show(x, y, ...jobCard(hit.lane.row, hit.mark));
    else this.card.hide();
  }

  // A finger cannot hover: it shows the card first, and opens the job when it comes again.
  click(hit, x, y, isTouch) {
    if (!hit?.isOn) return this.hover(null);
    const isKnown = this.card.isShown && this.touched === hit.lane.row.id;
    if (isTouch && !isKnown) {
      this.touched = hit.lane.row.id;
      return this.hover(hit, x, y);
    }
    this.app.go({ job: hit.lane.row.id });
  }

  // Keys of the view, wherever the focus is.
  key(event) {
    if (event.key === "+" || event.key === "=") this.closer();
    else if (event.key === "-") this.wider();
    else if (event.key === "/") this.controls.filter.focus();
    else if (event.key === "Escape") return this.goBack();
    else return false;
    return true;
  }
}

// The shortest span that has all jobs, but not more than the last twelve hours if they have any.
function fitting(rows) {
  const now = Date.now() / 1000;
  const oldest = rows.at(-1)?.created ?? now;
  const newest = rows.reduce((latest, row) => Math.max(latest, endedAt(row, now)), 0) || now;
  const wanted = Math.max(now - newest, Math.min(now - oldest, 43200));
  return new Span({ last: PRESETS.find((preset) => preset.last >= wanted).last });
}
