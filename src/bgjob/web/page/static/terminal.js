// A job's terminal: what it shows, live, and the way to type into it.
//
// It begins with the job's screen as it is now (`screen`) and goes on with what the job prints (`bytes`).
// The job has one size: that of the page, or terminal, that is in control (`view`).

import { element, framed } from "./element.js";
import { keep, kept } from "./kept.js";
import { askToOpen, askToPaste } from "./terminal_dialogs.js";
import { KeyRow } from "./terminal_keys.js";
import { font, theme } from "./terminal_theme.js";
import { decoded, encoded, post, typist } from "./wire.js";
import { clock, title } from "./words.js";
import { Screen } from "./xterm_screen.js";

const FONT = "terminal font size", READER = "terminal for a screen reader";
const WHOLE = "terminal in the whole window";
const USUAL_PX = 13, LEAST_PX = 8, MOST_PX = 32;
const SETTLED_MS = 80; // the size of a window that is dragged is told when it stands still
const PIECE_BYTES = 1 << 15; // of what is typed, in one request
// A person who held the job when the connection was lost holds it again, unless that took longer.
const HOLD_AGAIN_MS = 30_000;
const PADDING = { x: 4, y: 3 }; // pixels, of the box in terminal.css
const MOST_TITLE = 200;
// Of a paste: all but tab and line breaks. They would act as keys, or end the marks around it.
const CONTROLS = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;
const CLIPBOARD = /Mac|iP/.test(navigator.platform)
  ? "⌘V pastes, ⌘C copies." : "Ctrl+Shift+V pastes, Ctrl+Insert copies.";
const HINT = `Keys go to the job, Tab too: Ctrl+Shift+Enter leaves the terminal. ${CLIPBOARD}`;
const dark = matchMedia("(prefers-color-scheme: dark)"), narrow = matchMedia("(max-width: 40rem)");
const utf8 = new TextEncoder();

export const open = (place, app, query) => new TerminalView(place, app, query.job);

class TerminalView {
  constructor(place, app, job) {
    this.app = app;
    this.job = job;
    this.viewer = randomName();
    this.told = null; // the last `view`: {rows, cols, in_control, holds, stdin_closed, only_looks}
    this.isConnected = this.isOver = this.isClosed = false;
    this.problem = null; // why there is nothing to show
    this.holdsUntil = 0; // when the connection was lost, it held the job: it does again until then
    this.draw = framed(() => this.drawNow());
    this.build(place);
    const options = { fontSize: kept(FONT, USUAL_PX), fontFamily: font(), theme: theme() };
    this.screen = new Screen(this.box, { ...options, screenReaderMode: kept(READER, false) }, {
      typed: (text) => this.typed(text),
      title: (text) => this.entitle(text),
      link: askToOpen,
      behind: () => this.watch(),
    });
    this.screen.pointer = () => Boolean(this.told?.holds);
    this.term = this.screen.term;
    this.term.attachCustomKeyEventHandler((event) => this.isForJob(event));
    this.term.textarea.setAttribute("aria-describedby", "terminal-keys terminal-who");
    this.type = typist((bytes) => this.send(bytes), (problem) => this.notSent(problem));
    this.watch();
    this.listen();
    this.drawNow();
  }

  build(place) {
    const button = (name, act, label = null) =>
      element("button", { type: "button", onclick: act, "aria-label": label, title: label }, name);
    this.who = element("p", { class: "who", id: "terminal-who", role: "status" });
    this.take = button("Take over", () => this.takeOver());
    this.give = button("Give back", () => this.hold(false));
    this.size = element("span", {});
    this.name = element("span", { class: "mono" });
    this.reader = element("input", { type: "checkbox", onchange: () => this.readAloud(this.reader.checked) });
    this.reader.checked = kept(READER, false);
    this.whole = element("input", { type: "checkbox", onchange: () => {
      keep(WHOLE, this.whole.checked);
      this.fill(this.whole.checked);
    } });
    this.box = element("div", { class: "box" });
    this.keys = new KeyRow({
      press: (text) => this.screen.press(text),
      paste: () => this.pasteFromClipboard(),
      isApplication: () => this.term.modes.applicationCursorKeysMode,
    });
    this.node = element("section", { class: "tty", "aria-label": "Terminal" },
      element("div", { class: "bar" }, this.who,
        element("div", { class: "tools" }, this.take, this.give,
          button("A−", () => this.scale(-1), "A− smaller text"),
          button("A+", () => this.scale(1), "A+ larger text"),
          element("label", {}, this.whole, "Whole window"),
          element("label", {}, this.reader, "Screen reader"))),
      element("p", { class: "about" },
        this.size, element("span", { class: "hint", id: "terminal-keys" }, HINT), this.name),
      this.box, this.keys.node);
    place.append(this.node);
    this.fill(kept(WHOLE, narrow.matches));
  }

  listen() {
    this.fitLater = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.fit(), SETTLED_MS);
    };
    this.observer = new ResizeObserver(this.fitLater);
    this.observer.observe(this.box);
    this.recolour = () => (this.term.options.theme = theme());
    dark.addEventListener("change", this.recolour);
    this.endRows = this.app.jobs.onchange((changed, what) =>
      what === "rows" && (!changed || changed.has(this.job)) && this.draw());
    this.box.addEventListener("paste", (event) => {
      event.preventDefault();
      event.stopPropagation();
      this.paste(event.clipboardData.getData("text/plain"));
    }, true);
  }

  close() {
    clearTimeout(this.timer);
    this.observer.disconnect();
    dark.removeEventListener("change", this.recolour);
    this.endRows();
    this.unwatch();
    this.screen.close();
    this.isClosed = true;
  }

  // -- from the server --------------------------------------------------------------------------------

  // Also anew, from a new screen.
  watch() {
    this.lose();
    this.unwatch?.();
    const view = this;
    const query = {
      job: this.job,
      view: "terminal",
      viewer: this.viewer,
      // It is read whenever the stream is opened.
      get size() {
        view.fitted = view.asked = view.fitting();
        return sizeText(view.fitted);
      },
    };
    this.unwatch = this.app.stream.watch(query, {
      screen: ({ rows, cols, data }) => this.screen.begin(rows, cols, decoded(data)),
      bytes: ({ data }) => this.screen.add(decoded(data)),
      view: (view) => this.see(view),
      over: () => this.end(),
      gone: ({ error }) => this.end(error),
      state: (state) => state === "open" || this.lose(),
    });
  }

  see(view) {
    this.told = view;
    if (!this.isConnected) {
      this.isConnected = true;
      if (!view.holds && Date.now() < this.holdsUntil) this.hold(true);
      this.holdsUntil = 0;
      this.fit();
    }
    this.draw();
  }

  lose() {
    if (this.isConnected && this.told.holds) this.holdsUntil = Date.now() + HOLD_AGAIN_MS;
    this.isConnected = false;
    this.draw();
  }

  end(problem = null) {
    this.isOver = true;
    this.problem = problem;
    this.draw();
  }

  // -- what is said -----------------------------------------------------------------------------------

  drawNow() {
    if (this.isClosed) return;
    const why = this.whyNotType(), holds = !why && this.told.holds;
    this.say(why ?? this.whoTypes(), holds ? "yours" : why ? "off" : "");
    this.term.options.disableStdin = Boolean(why);
    this.keys.isOff = Boolean(why);
    this.offer(why ? null : holds ? this.give : this.take);
    this.size.textContent = this.sizeInWords();
    this.term.textarea.setAttribute("aria-label", `Terminal of ${this.row ? title(this.row) : "the job"}`);
    this.node.dataset.state = this.state();
  }

  state() {
    if (this.isOver) return this.problem ? "gone" : "over";
    if (!this.isConnected) return "lost";
    return this.told.holds ? "holds" : "looks";
  }

  get row() {
    return this.app.jobs.rows.get(this.job);
  }

  // A screen reader is told only what is new.
  say(text, kind) {
    if (this.who.textContent !== text) this.who.textContent = text;
    this.who.className = `who ${kind}`;
  }

  // One of the two buttons. If the other one has the focus and goes, this one gets it.
  offer(button) {
    for (const each of [this.take, this.give]) {
      const hadFocus = document.activeElement === each;
      each.hidden = each !== button;
      if (hadFocus && each.hidden) this.leave();
    }
  }

  whyNotType() {
    const { row, told } = this;
    if (this.problem) return this.problem;
    if (this.isOver) return `This job ${row?.outcome ?? "has ended"}. Its screen stays.`;
    if (!told && row?.group === "queued") return "This job is queued: its terminal begins when it is started.";
    if (!told) return "The terminal is being loaded …";
    if (!this.isConnected) return "The connection is lost: nothing can be typed until it is back.";
    if (!this.app.may("run")) return `This login may only look. ${this.whoHolds()}`;
    if (told.stdin_closed) return "The job has closed its input: nothing can be typed any more.";
    if (told.only_looks) return "This server may not type into this job: it can only be looked at.";
    return null;
  }

  whoTypes() {
    if (this.told.holds) return "You hold this job: agents cannot type until you give it back.";
    return `${this.whoHolds()} Your first key takes it over.`;
  }

  whoHolds() {
    const held = this.row?.held;
    if (!held) return "No person types: agents may.";
    return `${held.by} holds it since ${clock(held.since)}: agents cannot type.`;
  }

  sizeInWords() {
    if (!this.told?.rows) return "";
    const size = `${this.told.rows} × ${this.told.cols}`;
    return this.told.in_control || this.isOver ? size : `${size}: shown in the size of another terminal`;
  }

  entitle(text) {
    this.name.textContent = text.slice(0, MOST_TITLE);
  }

  // -- to the job -------------------------------------------------------------------------------------

  typed(text) {
    const given = this.keys.changed(text);
    this.type(typeof given === "string" ? utf8.encode(given) : given);
  }

  async send(bytes) {
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      await post("/api/type", { viewer: this.viewer, data: encoded(bytes.subarray(at, at + PIECE_BYTES)) });
    }
  }

  notSent(problem) {
    if (problem.status === 401) return this.app.fail(problem);
    const what = problem.status ? "did not arrive" : "may not have arrived";
    this.app.say(`${problem.message} What you typed last ${what}.`);
  }

  async hold(hold) {
    try {
      await post("/api/hold", { viewer: this.viewer, hold });
    } catch (problem) {
      this.app.fail(problem);
    }
  }

  async takeOver() {
    await this.hold(true);
    this.term.focus();
  }

  async paste(text) {
    const clean = text.replace(CONTROLS, "");
    if (!clean || this.whyNotType()) return;
    const isAsked = /[\r\n]/.test(clean) && !this.term.modes.bracketedPasteMode;
    if (isAsked && !(await askToPaste(clean))) return;
    if (clean.length < text.length) this.app.say("Control characters were left out of the paste.");
    this.screen.paste(clean);
    this.term.focus();
  }

  async pasteFromClipboard() {
    try {
      await this.paste(await navigator.clipboard.readText());
    } catch {
      this.app.say("The browser did not give the clipboard.");
    }
  }

  // xterm.js keeps Tab for the job: one key leaves. When nothing can be typed, all keys are the browser's.
  isForJob(event) {
    if (event.key === "Enter" && event.ctrlKey && event.shiftKey) {
      event.preventDefault();
      if (event.type === "keydown") this.leave();
      return false;
    }
    const isScroll = event.shiftKey && /^Page(Up|Down)$/.test(event.key);
    return isScroll || !this.term.options.disableStdin;
  }

  leave() {
    [...this.node.querySelectorAll(".tools button")].find((button) => !button.hidden).focus();
  }

  // -- its looks --------------------------------------------------------------------------------------

  fitting() {
    const { clientWidth, clientHeight } = this.box;
    return this.screen.fitting(clientWidth - 2 * PADDING.x, clientHeight - 2 * PADDING.y) ?? this.fitted;
  }

  // The size that the page has room for is asked for; the job's size is told by `view` and `screen`.
  async fit() {
    this.fitted = this.fitting();
    if (this.isFitting || this.whyNotType()) return;
    this.isFitting = true;
    try {
      while (sizeText(this.asked) !== sizeText(this.fitted)) {
        this.asked = this.fitted;
        await post("/api/resize", { viewer: this.viewer, ...this.fitted });
      }
    } catch {} // the stream is opened anew with this size
    this.isFitting = false;
  }

  scale(step) {
    const size = Math.max(LEAST_PX, Math.min(MOST_PX, this.term.options.fontSize + step));
    this.term.options.fontSize = size;
    keep(FONT, size);
    this.fitLater();
  }

  // Without the head of the page and of the job, which leave a phone hardly any room.
  fill(isWhole) {
    this.whole.checked = isWhole;
    this.node.classList.toggle("whole", isWhole);
  }

  readAloud(isOn) {
    this.term.options.screenReaderMode = isOn;
    keep(READER, isOn);
  }
}

const randomName = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

const sizeText = (size) => (size ? `${size.rows}x${size.cols}` : undefined);
