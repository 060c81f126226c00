// The timeline: a lane for each job, and what happened in a span of time, drawn and in words.

import { Card, onScheme } from "./chart.js";
import { element, framed } from "./element.js";
import { gestures } from "./gestures.js";
import { filterOf, filterProblem } from "./jobs.js";
import { keep, kept } from "./kept.js";
import { endedAt, happenings, MARKS, newestFirst, packed, summary, told, touches, WAYS, wayOf } from "./lanes.js";
import { between, moved, PRESETS, Span, zoomed } from "./span.js";
import { symbol } from "./symbols.js";
import { Drawing, HEAD } from "./timeline_drawing.js";
import { Events } from "./timeline_events.js";
import { jobCard, spanWords, WordsTable } from "./timeline_words.js";
import { title } from "./words.js";

const SETTLE_MS = 150, TICK_LEAST_MS = 250, TICK_MOST_MS = 10_000, TICK_CALM_MS = 1000;
const CLOSER = 0.6, STEP = 0.2;
// A job has been quiet for so long: nothing more is written about it.
const QUIET_MS = 6000;
const KEYS = "Arrow up and down: jobs. Left and right: what happened to a job. Enter: opens it. Shift with left and right: " +
  "earlier and later. Plus and minus: closer and wider.";

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
    this.hovered = this.focused = this.selected = null;
    this.changedAt = -Infinity;
    this.events = new Events(() => this.refresh(), (problem) => app.fail(problem));
    this.build();
    this.redraw = framed(() => this.draw());
    this.ends = [app.jobs.onchange((_, what) => this.onRows(what)), onScheme(() => this.redraw())];
    const seen = () => this.redraw();
    document.addEventListener("visibilitychange", seen);
    this.sizes = new ResizeObserver(() => this.onSize());
    for (const node of [this.box, this.head]) this.sizes.observe(node);
    this.ends.push(() => document.removeEventListener("visibilitychange", seen), () => this.sizes.disconnect());
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
    this.filter = element("input", {
      type: "search", id: "filter", placeholder: "Filter", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/",
      value: this.text, oninput: () => this.onFilter(), onkeydown: (event) => this.onFilterKey(event),
    });
    this.presets = PRESETS.map((preset) => element("button", {
      type: "button", title: preset.words, onclick: () => this.choose(new Span({ last: preset.last })),
    }, preset.name));
    this.live = element("button", { type: "button", title: "Ends now, and moves on", onclick: () => this.goLive() }, "Live");
    this.pack = element("button", {
      type: "button", title: "Jobs that do not overlap share a lane", "aria-pressed": String(this.isPacked), onclick: () => this.onPack(),
    }, "Packed");
    this.spanWords = element("strong");
    this.counts = element("span");
    this.summary = element("p", { class: "timeline-summary" }, this.spanWords, " ", this.counts);
    this.head = element("canvas", { class: "timeline-head", "aria-hidden": "true" });
    this.body = element("canvas", { "aria-hidden": "true" });
    this.height = element("div");
    this.scroll = element("div", {
      class: "timeline-scroll", tabindex: "0", role: "application", "aria-label": "Timeline of jobs", "aria-description": KEYS,
      onscroll: () => this.redraw(), onkeydown: (event) => this.onLaneKey(event), onfocus: () => this.onFocus(), onblur: () => this.onBlur(),
    }, this.height);
    this.empty = element("p", { class: "note timeline-empty", hidden: true });
    this.box = element("div", { class: "timeline-body" }, this.body, this.scroll, this.empty);
    this.chart = element("div", { class: "timeline-chart" }, this.head, this.box);
    this.said = element("p", { class: "unseen", "aria-live": "polite" });
    this.words = new WordsTable((entry) => this.addressOf(entry));
    this.place.append(
      element("h2", { class: "unseen" }, "Timeline"),
      element("div", { class: "bar" }, element("label", { for: "filter", class: "unseen" }, "Filter"), this.filter,
        element("div", { class: "ways", role: "group", "aria-label": "Span" }, this.presets),
        element("div", { class: "ways", role: "group", "aria-label": "Zoom" },
          element("button", { type: "button", "aria-label": "Wider", title: "Wider (-)", onclick: () => this.zoom(1 / CLOSER) }, "−"),
          element("button", { type: "button", "aria-label": "Closer", title: "Closer (+)", onclick: () => this.zoom(CLOSER) }, "+")),
        this.live, this.pack),
      this.summary, this.chart, legend(), this.words.node, this.said);
    this.drawing = new Drawing(this.head, this.body);
    this.card = new Card(this.chart);
    this.listen();
  }

  listen() {
    const common = {
      leave: () => this.hover(null),
      pan: (dx, dy) => this.pan(dx, dy),
      zoom: (factor, x) => this.zoom(factor, this.drawing.at(x)),
      select: (from, to, isOver) => this.select(from, to, isOver),
      cancel: () => this.select(0, 0, false),
    };
    gestures(this.scroll, {
      ...common, selects: () => false,
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
    this.refresh();
  }

  onFilter() {
    this.text = this.filter.value;
    this.matching = null;
    this.refresh();
  }

  onFilterKey(event) {
    if (event.key !== "Escape" && event.key !== "Enter") return;
    if (event.key === "Escape") this.filter.value = "";
    event.preventDefault();
    this.onFilter();
    this.scroll.focus();
  }

  onPack() {
    this.isPacked = !this.isPacked;
    keep("timeline lanes", this.isPacked ? "packed" : "each");
    this.pack.setAttribute("aria-pressed", this.isPacked);
    this.onSize();
  }

  onSize() {
    this.drawing.width = 0;
    this.redraw();
  }

  refresh() {
    this.isStale = true;
    this.redraw();
  }

  get laneOf() {
    return this.isPacked ? this.shared : null;
  }

  find() {
    this.matching = newestFirst([...this.app.jobs.rows.values()].filter(filterOf(this.text)));
    this.shared = packed(this.matching);
    this.oldest = this.matching.at(-1)?.created ?? Date.now() / 1000;
    if (!this.isChosen) this.span = fitting(this.matching);
  }

  draw() {
    if (this.isClosed || document.hidden) return;
    if (!this.matching) this.find();
    const now = Date.now() / 1000, [from, to] = (this.shown = this.span.at(now, this.oldest));
    this.lanes = this.matching.filter((row) => touches(row, from, to, now));
    this.layOut();
    if (this.focused && !this.lanes.some((row) => row.id === this.focused.id)) this.focused = null;
    this.drawing.draw({
      from, to, now, rows: this.lanes, laneOf: this.laneOf, marksOf: this.events.byJob, scrolled: this.scroll.scrollTop,
      hovered: this.hovered?.lane.row.id, focused: this.focused, selected: this.selected,
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
    const height = `${Math.max(3 * this.drawing.lane.height, this.drawing.heightOf(this.lanes, this.laneOf))}px`;
    if (height === this.height.style.height) return;
    this.height.style.height = this.box.style.flexBasis = height;
    measure();
  }

  // What costs more than a frame, or is for the eyes of people: at most every SETTLE_MS.
  settle() {
    this.settleTimer ||= setTimeout(() => {
      this.settleTimer = 0;
      if (!this.isClosed) this.settled();
    }, SETTLE_MS);
  }

  settled() {
    const now = Date.now() / 1000, [from, to] = this.shown;
    this.events.cover(from, to, now);
    const marks = this.marksIn(from, to);
    write(this.spanWords, spanWords(this.span, from, to));
    const text = this.lanes.length ? summary(this.lanes, marks, now) : "no job";
    write(this.counts, this.app.jobs.isComplete ? text : `${text} … reading more jobs`);
    this.words.show(happenings(this.lanes, marks, from, to), this.events.hasMore);
    this.showEmpty();
    for (const [at, button] of this.presets.entries()) button.setAttribute("aria-pressed", this.span.last === PRESETS[at].last);
    this.live.setAttribute("aria-pressed", this.span.isLive);
    this.keepAddress();
    this.isSettled = true;
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
    const { rows, isComplete, problem } = this.app.jobs;
    this.empty.hidden = this.lanes.length > 0;
    const text = problem ?? (!rows.size ? (isComplete ? "No job yet. A job that is started appears here." : "Reading the jobs …")
      : !this.matching?.length ? (filterProblem(this.text) ?? `No job fits “${this.text}”.`) : "No job in this span. All shows every job that is kept.");
    write(this.empty, text);
  }

  keepAddress() {
    const span = this.isChosen ? this.span.address() : {};
    const lanes = this.isPacked ? "packed" : "each", address = JSON.stringify([span, this.text, lanes]);
    if (address === this.address) return;
    if (this.address !== undefined) this.app.go({ view: "timeline", ...span, lanes, filter: this.text }, { replace: true });
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
    if (!isQuiet || this.lanes.some((row) => row.group !== "ended")) this.events.tail(Date.now() / 1000, !isQuiet);
  }

  // -- the span --------------------------------------------------------------------------------------

  choose(span, { isRemembered = true } = {}) {
    if (isRemembered && this.span) this.before.push(this.span);
    this.span = span;
    this.isChosen = true;
    this.refresh();
  }

  // Without a place, a live span stays live, and another one keeps its middle.
  zoom(factor, at) {
    const now = Date.now() / 1000, [from, to] = this.shown;
    this.choose(zoomed([from, to], factor, at ?? (this.span.isLive ? now : (from + to) / 2), now), { isRemembered: false });
  }

  pan(dx, dy) {
    const [from, to] = this.shown, seconds = (-dx * (to - from)) / (this.drawing.right - this.drawing.left);
    this.scroll.scrollTop -= dy;
    if (dx) this.choose(moved([from, to], seconds, Date.now() / 1000), { isRemembered: false });
  }

  goLive() {
    const [from, to] = this.shown;
    this.choose(moved([from, to], Math.max(0, Date.now() / 1000 - to) + 1, Date.now() / 1000));
  }

  select(from, to, isOver) {
    this.selected = from === to ? null : [from, to];
    if (isOver && this.selected) {
      const [first, last] = [this.drawing.at(Math.min(from, to)), this.drawing.at(Math.max(from, to))];
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

  addressOf({ row }) {
    return `/?job=${row.id}`;
  }

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

  onFocus() {
    if (this.scroll.matches(":focus-visible") && !this.focused && this.lanes.length) {
      this.focusLane(this.isPacked ? 0 : Math.floor(this.scroll.scrollTop / this.drawing.lane.height));
    }
  }

  onBlur() {
    this.focused = null;
    this.card.hide();
    this.redraw();
  }

  focusLane(at, mark = -1) {
    const row = this.lanes[Math.max(0, Math.min(this.lanes.length - 1, at))];
    if (!row) return;
    this.focused = { id: row.id, mark };
    const lane = this.drawing.lane.height, { scrollTop, clientHeight } = this.scroll;
    const top = this.drawing.topOf(row, this.lanes.indexOf(row), this.laneOf);
    if (top < scrollTop) this.scroll.scrollTop = top;
    if (top + lane > scrollTop + clientHeight) this.scroll.scrollTop = top + lane - clientHeight;
    this.draw();
    this.showFocused(row);
  }

  showFocused(row) {
    const lane = this.drawing.drawn.find((each) => each.row.id === row.id), mark = this.markOf(this.focused);
    if (!lane) return;
    const x = mark ? this.drawing.x(mark.at) : Math.max(this.drawing.left, Math.min(this.drawing.right, lane.bar[0]));
    this.card.show(x, lane.y + HEAD + lane.height, ...jobCard(row, mark));
    write(this.said, mark ? `${title(row)} ${mark.words}` : told(row, Date.now() / 1000));
  }

  markOf({ id, mark }) {
    return mark < 0 ? null : this.events.byJob.get(id)?.[mark];
  }

  // The places of this lane's marks that are in sight.
  marksInSight(id) {
    const [from, to] = this.shown;
    return [...(this.events.byJob.get(id) ?? []).entries()].filter(([, mark]) => mark.at >= from && mark.at <= to).map(([at]) => at);
  }

  onLaneKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.laneKeys()[event.shiftKey ? `Shift${event.key}` : event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  laneKeys() {
    const at = this.focused ? this.lanes.findIndex((row) => row.id === this.focused.id) : -1;
    const inSight = Math.max(1, Math.floor(this.scroll.clientHeight / this.drawing.lane.height) - 1);
    return {
      ArrowDown: () => this.focusLane(at + 1),
      ArrowUp: () => this.focusLane(Math.max(0, at - 1)),
      PageDown: () => this.focusLane(at + inSight),
      PageUp: () => this.focusLane(at - inSight),
      Home: () => this.focusLane(0),
      End: () => this.focusLane(this.lanes.length - 1),
      ArrowRight: () => this.focusMark(at, 1),
      ArrowLeft: () => this.focusMark(at, -1),
      ShiftArrowRight: () => this.shift(STEP),
      ShiftArrowLeft: () => this.shift(-STEP),
      Enter: () => at >= 0 && this.app.go({ job: this.focused.id }),
    };
  }

  focusMark(at, step) {
    if (at < 0) return this.focusLane(0);
    const places = [-1, ...this.marksInSight(this.focused.id)];
    const next = places[places.indexOf(this.focused.mark) + step];
    if (next !== undefined) this.focusLane(at, next);
  }

  shift(share) {
    const [from, to] = this.shown;
    this.card.hide();
    this.choose(moved([from, to], share * (to - from), Date.now() / 1000), { isRemembered: false });
    this.say();
  }

  // Keys of the view, wherever the focus is.
  key(event) {
    if (event.key === "+" || event.key === "=") this.zoom(CLOSER);
    else if (event.key === "-") this.zoom(1 / CLOSER);
    else if (event.key === "/") this.filter.focus();
    else if (event.key === "Escape") return this.goBack();
    else return false;
    return true;
  }
}

// The shortest span that has all jobs, but not more than the last twelve hours if they have any.
function fitting(rows) {
  const now = Date.now() / 1000, oldest = rows.at(-1)?.created ?? now;
  const newest = rows.reduce((latest, row) => Math.max(latest, endedAt(row, now)), 0) || now;
  const wanted = Math.max(now - newest, Math.min(now - oldest, 43200));
  return new Span({ last: PRESETS.find((preset) => preset.last >= wanted).last });
}

function legend() {
  const item = (kind, text) => element("span", { class: "item" }, symbol(kind), text);
  return element("p", { class: "legend", "aria-hidden": "true" },
    ...Object.entries(WAYS).map(([way, { word }]) => item(way, word)),
    element("span", { class: "between" }),
    ...Object.entries(MARKS).reverse().map(([kind, { one }]) => item(kind, one)));
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
