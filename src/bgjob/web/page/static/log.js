// The log of a job, live: a window on it, which follows its end until the user scrolls up.
//
// Lines are read in pages, by offsets of the log, at the edges of the window. There is no line number and no height of
// the whole: the slider stands for bytes. The stream only tells that there is more to read.

import { element, framed } from "./element.js";
import { keep, kept } from "./kept.js";
import { drawnGap, drawnLine } from "./log_line.js";
import { LogWindow } from "./log_window.js";
import { Minimap } from "./minimap.js";
import { Search } from "./search.js";
import { address, get } from "./wire.js";
import { bytes, clock } from "./words.js";

const PAGE = 200, NEAR_PX = 1500, AT_END_PX = 30, STEPS = 1000;
const EVERYTHING = Number.MAX_SAFE_INTEGER;
const AGAIN_MS = 1000;
// Also where the box has not the focus.
const SCROLLS = {
  j: () => 54, ArrowDown: () => 54, k: () => -54, ArrowUp: () => -54,
  PageDown: (height) => height * 0.9, PageUp: (height) => height * -0.9,
};
const WRAPS = "log wraps lines";

export const open = (place, app, query) => new LogView(place, app, query);

class LogView {
  constructor(place, app, query) {
    this.app = app;
    this.query = query;
    this.job = query.job;
    this.end = 0; // of the log, as far as it is known
    this.hasGrown = true; // since lines were read
    this.chosen = /^\d{1,15}$/.test(query.at) ? Number(query.at) : null; // the line of the address
    this.follows = this.chosen === null;
    this.wanted = this.follows ? null : { at: this.chosen }; // where to go next
    this.draw = framed(() => this.drawNow());
    this.build(place);
    this.watch();
    this.run();
  }

  build(place) {
    this.box = element("div", { class: "scroll", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Output" });
    this.window = new LogWindow(this.box, (item) => (item.isGap ? drawnGap(item) : this.drawnLine(item)));
    this.note = element("p", { class: "note", hidden: true });
    this.box.append(this.note);
    this.search = new Search(this.searched());
    this.minimap = new Minimap((share) => this.go(Math.floor(share * this.end)));
    this.back = element("button", { type: "button", class: "main follow", "aria-keyshortcuts": "End", onclick: () => this.follow(), hidden: true });
    this.slider = element("input", { type: "range", min: "0", max: String(STEPS), "aria-label": "Place in the log", oninput: () => this.slid() });
    this.where = element("span", { class: "where" });
    this.wrap = element("input", { type: "checkbox", onchange: () => this.wraps(this.wrap.checked) });
    const file = (stream) => element("a", { href: address("/api/download", { job: this.job, stream }), download: "" }, stream);
    const isPty = this.app.jobs.rows.get(this.job)?.pty; // its terminal has one stream
    place.append(
      element("div", { class: "bar" }, this.search.node,
        element("label", { class: "wrap" }, this.wrap, "Wrap"),
        !isPty && element("span", { class: "files" }, "Download only ", file("stdout"), " ", file("stderr"))),
      element("div", { class: "pane" }, this.box, this.minimap.node, this.back),
      element("div", { class: "bar place" }, this.slider, this.where));
    this.wrap.checked = kept(WRAPS, false);
    this.wraps(this.wrap.checked);
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.box.addEventListener("click", (event) => this.clicked(event));
    this.resized = new ResizeObserver(() => (this.follows ? this.window.toEnd() : this.run()));
    this.resized.observe(this.box);
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.unwatch();
    this.search.close();
    this.minimap.close();
    this.resized.disconnect();
  }

  key(event) {
    if (event.target === this.slider && event.key.length > 1) return false; // its own keys: arrows, Home, End
    if (event.key === "End" || event.key === "G") this.follow();
    else if (event.key === "Home" || event.key === "g") this.go(0);
    else if (event.key === "/") this.search.focus();
    else if ((event.key === "n" || event.key === "N") && this.search.isOn) this.search.next(event.key === "n");
    else if (SCROLLS[event.key]) this.box.scrollBy({ top: SCROLLS[event.key](this.box.clientHeight) });
    else if (event.key === "w") this.wraps(this.wrap.checked = !this.wrap.checked);
    else return false;
    return true;
  }

  update() {
    this.draw();
  }

  // -- what the server tells ----------------------------------------------------------------------

  watch() {
    this.unwatch = this.app.stream.watch({ job: this.job, view: "log" }, {
      grown: ({ end }) => this.grown(end),
      over: () => this.grown(this.end),
      gone: ({ error }) => this.stop(error),
    });
  }

  // Also told once after each connection: what was printed meanwhile is read.
  grown(end) {
    this.end = Math.max(this.end, end);
    this.hasGrown = true;
    this.search.grown();
    this.run();
  }

  stop(words) {
    this.problem = words;
    this.draw();
  }

  // -- reading ------------------------------------------------------------------------------------

  async ask(query) {
    const page = await get("/api/lines", { job: this.job, count: PAGE, ...query, ...this.search.marks });
    this.end = Math.max(this.end, page.end);
    return page;
  }

  // Reads what is needed, one page at a time, until nothing is.
  async run() {
    if (this.isBusy || this.isClosed) return;
    this.isBusy = true;
    try {
      while (!this.isClosed && (await this.step()));
    } catch (problem) {
      this.failed(problem);
    }
    this.isBusy = false;
    this.draw();
  }

  failed(problem) {
    if (this.isClosed) return;
    if (problem.status === 404) return this.stop(problem.message);
    if (problem.status !== 0) this.app.fail(problem);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), AGAIN_MS);
  }

  // Whether something was read.
  async step() {
    const { window } = this;
    if (this.wanted) return this.jump();
    if (this.areMarksOld) return this.markAgain();
    if (this.hasGrown) return this.readGrown();
    if (!window.first) return false;
    if (!window.hasEnd && (this.follows || window.below < NEAR_PX)) return this.readOn();
    if (!window.hasStart && window.above < NEAR_PX) return this.readBack();
    return false;
  }

  // A line without an end may be longer by now, wherever in the window it is; the rest is behind the last line.
  async readGrown() {
    this.hasGrown = false;
    const { window } = this;
    try {
      for (const item of window.lines.filter((line) => line.open)) {
        const [line] = (await this.ask({ after: item.at, count: 1 })).lines;
        if (line?.at === item.at && window.items.includes(item)) window.replace(item, line);
      }
    } catch (problem) {
      this.hasGrown = true;
      throw problem;
    }
    window.hasEnd = false;
    if (!window.first) await this.readEnd();
    else if (this.follows) window.toEnd();
    return true;
  }

  async readOn() {
    const { window } = this, page = await this.ask({ after: window.last.at + 1 });
    if (this.follows && page.more) return this.readEnd(); // far behind: what lies between is not shown
    window.append(page);
    if (this.follows) window.toEnd();
    return true;
  }

  async readBack() {
    this.window.prepend(await this.ask({ before: this.window.first.at }));
    return true;
  }

  async readEnd() {
    const page = await this.ask({ before: EVERYTHING });
    this.window.clear();
    this.window.prepend(page);
    this.window.hasEnd = true;
    if (this.follows) this.window.toEnd();
    return true;
  }

  // The lines around a place.
  async jump() {
    const { window } = this, { at, isMatch } = this.wanted;
    const known = window.items.find((item) => !item.isGap && item.at === at);
    if (!known) {
      const wanted = this.wanted;
      const after = await this.ask({ after: at }), before = await this.ask({ before: at });
      if (wanted !== this.wanted) return true; // the user has gone on
      window.clear();
      window.append(after);
      window.prepend(before);
    }
    this.wanted = null;
    const item = window.find(at);
    if (item && !(isMatch && known && window.isInSight(item))) window.show(item);
    this.choose();
    return true;
  }

  // Lines that are here already, with the matches of another search.
  async markAgain() {
    this.areMarksOld = false;
    const { window } = this;
    if (!window.first) return true;
    const { lines } = await this.ask({ after: window.first.at, count: window.lines.length });
    const marks = new Map(lines.map((line) => [line.at, line]));
    for (const item of window.lines) {
      const line = marks.get(item.at);
      if (line && (line.marks || item.marks)) window.replace(item, line);
    }
    this.choose();
    return true;
  }

  // -- going --------------------------------------------------------------------------------------

  go(at) {
    this.follows = false;
    this.wanted = { at };
    this.run();
  }

  follow() {
    this.follows = this.hasGrown = true;
    this.wanted = null;
    this.window.toEnd();
    this.run();
  }

  slid() {
    const share = this.slider.valueAsNumber / STEPS;
    if (share === 1) this.follow();
    else this.go(Math.floor(share * this.end));
  }

  scrolled() {
    const { window } = this;
    if (!this.wanted) this.follows = window.below < AT_END_PX && (window.hasEnd || this.follows);
    this.run();
    this.draw();
  }

  wraps(isOn) {
    keep(WRAPS, isOn);
    this.window.steadily(() => this.box.classList.toggle("wraps", isOn));
    if (this.follows) this.window.toEnd();
  }

  // -- lines --------------------------------------------------------------------------------------

  drawnLine(line) {
    const node = drawnLine(line, (at) => `/?${new URLSearchParams({ job: this.job, view: "log", at })}`);
    node.dataset.at = line.at;
    for (const name of this.marksOf(line)) node.classList.add(name);
    return node;
  }

  // The line of the address, and the match that is shown, stand out.
  marksOf({ at, end }) {
    const isIn = (place) => place !== null && at <= place && place < end;
    return [isIn(this.chosen) && "chosen", isIn(this.search?.current ?? null) && "current"].filter(Boolean);
  }

  clicked(event) {
    const link = event.target.closest?.("a.at");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.chosen = Number(link.parentNode.dataset.at);
    this.app.go({ job: this.job, view: "log", at: String(this.chosen) }, { replace: true });
    this.choose();
    this.copy(new URL(link.href).href);
  }

  async copy(link) {
    try {
      await navigator.clipboard.writeText(link);
      this.app.say("The link to this line is copied, and in the address bar.");
    } catch {
      this.app.say("The link to this line is in the address bar.");
    }
  }

  choose() {
    for (const item of this.window.lines) {
      item.node.classList.remove("chosen", "current");
      item.node.classList.add(...this.marksOf(item));
    }
  }

  searched() {
    return {
      job: this.job,
      place: () => this.window.sight?.to ?? this.end,
      show: (at) => {
        this.follows = false;
        this.wanted = { at, isMatch: true };
        this.run();
      },
      found: ({ parts }) => this.minimap.set({ parts }),
      changed: () => {
        this.areMarksOld = true;
        this.run();
      },
      focus: () => this.box.focus(),
    };
  }

  // -- what is told of it -------------------------------------------------------------------------

  drawNow() {
    if (this.isClosed) return;
    const { window } = this, sight = window.sight, isAtEnd = window.hasEnd && window.below < AT_END_PX;
    this.tellNothing();
    const whole = Math.max(1, this.end);
    const share = !sight || isAtEnd ? 1 : sight.from / whole;
    if (document.activeElement !== this.slider || isAtEnd) this.slider.value = String(Math.round(STEPS * share));
    const words = sight ? `${bytes(sight.from)} of ${bytes(this.end)}${sight.first.time ? `, ${clock(sight.first.time)}` : ""}` : bytes(this.end);
    this.where.textContent = words;
    this.slider.setAttribute("aria-valuetext", words);
    this.minimap.set({ sight: sight && { from: sight.from / whole, to: sight.to / whole } });
    this.back.hidden = this.follows || isAtEnd || !sight;
    const isLive = this.app.jobs.rows.get(this.job)?.group !== "ended";
    this.back.textContent = isLive ? "↓ Follow" : "↓ To the end";
    this.box.dataset.follows = String(this.follows);
  }

  tellNothing() {
    const row = this.app.jobs.rows.get(this.job);
    const words = this.problem
      ?? (this.window.items.length || this.isBusy ? null
        : row?.group === "queued" ? "It is queued: it prints nothing before it starts."
          : row?.group === "ended" ? "It printed nothing." : "Nothing was printed yet.");
    this.note.hidden = !words;
    if (words && this.note.textContent !== words) this.note.textContent = words;
  }
}
