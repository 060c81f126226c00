// Lines that match: how many there are, where they lie, and the way from one to the next.

import { element } from "./element.js";
import { keep, kept } from "./kept.js";
import { get } from "./wire.js";

const SETTLED_MS = 150; // after the last key
const AGAIN_MS = 2000, AGAIN_TIMES = 10; // while the log grows: so long between two searches, and so many times what one takes
const PARTS = 400;
const EVERYTHING = Number.MAX_SAFE_INTEGER;
const AS_TYPED = "search regular expression", WITH_CASE = "search match case";

export class Search {
  // `log` is what is searched: {job, place(): the offset behind what is in sight, show(at), found({parts}), changed(), focus()}.
  constructor(log) {
    this.log = log;
    this.current = null; // the offset of the match that is shown
    this.number = null; // of that match, from 1
    this.answer = null; // {count, complete, parts, end}
    this.marks = null; // what is marked in lines: a query that the server has understood
    this.turn = 0;
    this.build();
  }

  build() {
    this.field = element("input", { type: "search", placeholder: "Search", "aria-label": "Search this log", autocomplete: "off", spellcheck: "false",
      "aria-keyshortcuts": "/", oninput: () => this.typed(), onkeydown: (event) => this.key(event) });
    this.isPattern = this.choice(".*", "Regular expression (RE2)", AS_TYPED);
    this.hasCase = this.choice("Aa", "Match case", WITH_CASE);
    this.told = element("output", { class: "found", role: "status" });
    const way = (name, label, shortcut, forward) =>
      element("button", { type: "button", "aria-label": label, title: label, "aria-keyshortcuts": shortcut, disabled: true, onclick: () => this.next(forward) }, name);
    this.ways = [way("↑", "Previous match", "N", false), way("↓", "Next match", "n", true)];
    this.node = element("form", { class: "search", role: "search", onsubmit: (event) => event.preventDefault() },
      this.field, this.isPattern, this.hasCase, ...this.ways, this.told);
  }

  choice(name, label, remembered) {
    const button = element("button", { type: "button", class: "choice", "aria-pressed": String(kept(remembered, false)), "aria-label": label, title: label, onclick: () => {
      const isOn = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isOn));
      keep(remembered, isOn);
      this.begin();
    } }, name);
    return button;
  }

  close() {
    this.stop();
    this.isClosed = true;
  }

  stop() {
    this.turn += 1;
    clearTimeout(this.timer);
    clearTimeout(this.again);
    this.again = 0;
  }

  // What the field asks for; null: nothing.
  get query() {
    if (!this.field.value) return null;
    const flag = (button, when) => ((button.getAttribute("aria-pressed") === "true") === when ? 1 : undefined);
    return { pattern: this.field.value, literal: flag(this.isPattern, false), ignore_case: flag(this.hasCase, false) };
  }

  get isOn() {
    return Boolean(this.answer?.count);
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  key(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      if (this.answer) this.next(!event.shiftKey);
      else this.begin();
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.field.value = "";
      this.begin();
      this.log.focus();
    }
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.begin(), SETTLED_MS);
  }

  // -- asking -------------------------------------------------------------------------------------

  async begin() {
    this.stop();
    this.current = this.number = this.answer = null;
    this.tell(this.field.value ? "…" : "");
    this.asked = this.query;
    if (!this.asked) return this.forget();
    const place = this.log.place();
    await this.ask({ before: place, parts: PARTS }, async (found) => {
      this.take(found);
      if (found.matches.length) await this.show(found.matches[0].at, found.before);
      else if (found.count) await this.ask({ after: place }, ({ matches }) => matches.length && this.show(matches[0].at, found.before + 1));
      this.log.changed();
    });
  }

  // Calls act with the answer, unless another search has begun meanwhile.
  async ask(query, act) {
    const mine = this.turn;
    try {
      const found = await get("/api/search", { job: this.log.job, ...this.asked, ...query });
      if (mine === this.turn) await act(found);
    } catch (problem) {
      if (mine !== this.turn) return;
      this.fail(problem);
    }
  }

  fail(problem) {
    const isNoPattern = problem.status === 400;
    this.tell(problem.message, isNoPattern);
    if (isNoPattern) this.forget();
  }

  forget() {
    this.marks = null;
    this.log.found({ parts: [] });
    this.log.changed();
  }

  take(found) {
    this.answer = found;
    this.marks = this.asked;
    this.log.found(found);
    this.say();
  }

  // The next match, or the previous one; behind the last one comes the first.
  async next(forward) {
    if (!this.isOn) return;
    const from = this.current ?? this.log.place();
    const step = forward ? { after: from + 1 } : { before: from };
    await this.ask(step, async ({ matches }) => {
      if (matches.length) return this.show(matches[0].at, this.number && this.number + (forward ? 1 : -1));
      const round = forward ? { after: 0 } : { before: EVERYTHING };
      await this.ask(round, (found) => found.matches.length && this.show(found.matches[0].at, forward ? 1 : this.answer.count));
    });
  }

  async show(at, number) {
    this.current = at;
    this.number = number;
    this.say();
    this.log.show(at);
  }

  // The log has more: it is counted again, now and then.
  grown() {
    if (!this.answer || this.again || this.isClosed) return;
    const pause = Math.max(AGAIN_MS, AGAIN_TIMES * (this.took ?? 0));
    this.again = setTimeout(async () => {
      const began = performance.now(), place = this.current ?? 0;
      await this.ask({ after: place, parts: PARTS }, (found) => {
        this.number = this.current === null ? null : found.before + 1;
        this.take(found);
      });
      this.took = performance.now() - began;
      this.again = 0;
    }, pause);
  }

  // -- telling ------------------------------------------------------------------------------------

  say() {
    const { count, complete } = this.answer, all = count.toLocaleString("en");
    const sum = complete ? all : `at least ${all}`;
    if (!count) this.tell(complete ? "No line matches" : "None found in the time there was: the log is large");
    else if (this.number && complete) this.tell(`${this.number.toLocaleString("en")} of ${all}`);
    else this.tell(count === 1 ? `${sum} line` : `${sum} lines`);
  }

  tell(words, isWrong = false) {
    this.told.textContent = words;
    this.field.setAttribute("aria-invalid", String(isWrong));
    for (const button of this.ways) button.disabled = !this.isOn;
  }
}
