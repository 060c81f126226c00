// xterm.js as a screen that only shows: it is brought into a state, goes on with bytes, and answers no
// question of a job. What a person types is told apart from what xterm.js would send by itself.

import { Terminal } from "./vendor/xterm.mjs";

const SCROLLBACK = 5000;
const MOST_IN_XTERM = 1 << 18, MOST_WAITING = 1 << 20; // bytes
const LEAST_CONTRAST = 4.5; // WCAG AA: programs choose their colours for another background
const MOST_ROWS = 500, MOST_COLS = 1000; // as src/bgjob/terminal/size.py
const SCROLLBAR = 14; // pixels, as xterm.js draws it
const LINK_ROWS = 20; // an address may be wrapped into so many rows
const ADDRESS = /https?:\/\/[^\s"'`<>{}|\\^\u0000-\u0020]+[^\s"'`<>{}|\\^\u0000-\u0020.,;:!?)\]]/gi;

// The window has gained or lost the focus. A page beside other windows does that all the time, and every byte
// that is sent counts as typed by a person: a look at the page would take the job from its agent.
const FOCUS_REPORT = /^\x1b\[[IO]$/;
const MOUSE_REPORT = /^\x1b\[(?:M|<[\d;]+[Mm]$)/;

const SILENT = () => true;
const QUESTIONS = {
  csi: ["c", ">c", "=c", "n", "?n", "$p", "?$p", "t", ">q", "x", "?u", "*y"],
  dcs: ["$q", "+q"],
  esc: ["Z"],
};
const COLOURS = [4, 10, 11, 12], CLIPBOARD = 52; // numbers of OSC

// "?$p": a prefix of CSI, an intermediate character, the final one; each but the last may be absent.
function sequence(text) {
  const [, prefix, intermediates, final] = /^([<=>?]?)([ -/]?)(.)$/.exec(text);
  return { final, ...(prefix && { prefix }), ...(intermediates && { intermediates }) };
}

// The server passes no question either. Two pages would answer twice, and a question of yesterday today.
function answerNothing({ parser }) {
  for (const each of QUESTIONS.csi) parser.registerCsiHandler(sequence(each), SILENT);
  for (const each of QUESTIONS.dcs) parser.registerDcsHandler(sequence(each), SILENT);
  for (const each of QUESTIONS.esc) parser.registerEscHandler(sequence(each), SILENT);
  for (const number of COLOURS) parser.registerOscHandler(number, (data) => data.split(";").includes("?"));
  parser.registerOscHandler(CLIPBOARD, SILENT);
}

export class Screen {
  // on: {typed(text or bytes), title(text), link(address), behind()}. `behind`: more has come than can be
  // drawn, it was dropped, and the screen has to begin anew. `pointer`: whether clicks and the wheel go to
  // the job.
  constructor(place, options, on) {
    this.on = on;
    this.pointer = () => false;
    this.isBeginning = this.isPerson = false;
    this.key = null; // the last key, until it is sent
    this.queue = []; // of {act, data}: done and drawn in this order
    this.waiting = this.unparsed = 0; // bytes
    this.term = new Terminal({
      scrollback: SCROLLBACK,
      minimumContrastRatio: LEAST_CONTRAST,
      altClickMovesCursor: false,
      disableStdin: true,
      linkHandler: { activate: (_, address) => on.link(address) },
      ...options,
    });
    answerNothing(this.term);
    this.term.registerLinkProvider({ provideLinks: (row, give) => give(this.linksIn(row - 1)) });
    this.term.onTitleChange(on.title);
    this.term.onKey(({ key }) => (this.key = key));
    this.term.onData((text) => this.sent(text));
    this.term.onBinary((text) => this.pointer() && on.typed(bytesOf(text))); // only the mouse
    this.term.attachCustomWheelEventHandler(() => this.pointer() || !this.isPointerTaken());
    this.term.open(place);
  }

  close() {
    this.queue = [];
    this.term.dispose();
  }

  // -- what is shown ----------------------------------------------------------------------------------

  // The state of a job's terminal. What waits to be drawn is dropped: the state has it. It begins anew
  // because the size has changed, then nothing is missing in what has scrolled out; or because too much was
  // printed.
  begin(rows, cols, data) {
    this.queue = [];
    this.waiting = 0;
    this.put(data, () => {
      this.isBeginning = true;
      if (rows === this.term.rows && cols === this.term.cols) this.term.reset();
      this.on.title("");
      this.term.resize(cols, rows);
    });
    this.put(new Uint8Array(), () => (this.isBeginning = false));
  }

  add(data) {
    this.put(data);
  }

  put(data, act = null) {
    this.queue.push({ act, data });
    this.waiting += data.length;
    this.pump();
    if (this.waiting <= MOST_WAITING) return;
    this.queue = [];
    this.waiting = 0;
    this.on.behind();
  }

  // xterm.js keeps what it is given until it has parsed it: it is not given much at once.
  pump() {
    while (this.queue.length && this.unparsed < MOST_IN_XTERM) {
      const { act, data } = this.queue.shift();
      this.waiting -= data.length;
      this.unparsed += data.length;
      if (act) this.term.write("", act);
      this.term.write(data, () => {
        this.unparsed -= data.length;
        this.pump();
      });
    }
  }

  // -- what is typed ----------------------------------------------------------------------------------

  // Text goes as keys do, between marks if the job has asked for marks (bracketed paste).
  paste(text) {
    this.asPerson(() => this.term.paste(text));
  }

  press(text) {
    this.asPerson(() => this.term.input(text));
  }

  asPerson(act) {
    this.isPerson = true;
    act();
    this.isPerson = false;
  }

  sent(text) {
    const isTyped = this.isPerson || text === this.key;
    this.key = null;
    if (FOCUS_REPORT.test(text) || (this.isBeginning && !isTyped)) return;
    if (MOUSE_REPORT.test(text) && !this.pointer()) return;
    this.on.typed(text);
  }

  // A full-screen program gets the wheel: as reports of the mouse, or as arrow keys.
  isPointerTaken() {
    return this.term.modes.mouseTrackingMode !== "none" || this.term.buffer.active.type === "alternate";
  }

  // -- its size ---------------------------------------------------------------------------------------

  // The rows and columns that fit into so many pixels; null: the page does not show it now. A cell is
  // measured as xterm.js does it; what it has drawn does not tell, for the width of a screen is rounded.
  fitting(width, height) {
    if (width <= SCROLLBAR || height <= 0) return null;
    const { fontSize, fontFamily } = this.term.options;
    pen.font = `${fontSize}px ${fontFamily}`;
    const { width: cell, fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = pen.measureText("W");
    const line = Math.ceil((above + below) * devicePixelRatio) / devicePixelRatio;
    return {
      rows: within(Math.floor(height / line), 1, MOST_ROWS),
      cols: within(Math.floor((width - SCROLLBAR) / cell), 2, MOST_COLS),
    };
  }

  // -- addresses --------------------------------------------------------------------------------------

  // Those in the text of a row, and of the rows that it goes on in.
  linksIn(row) {
    const { text, cells } = this.lineAt(row);
    return [...text.matchAll(ADDRESS)].map(({ 0: address, index }) => ({
      text: address,
      range: { start: cells[index], end: cells[index + address.length - 1] },
      activate: () => this.on.link(address),
    })).filter(({ range }) => range.start.y <= row + 1 && row + 1 <= range.end.y);
  }

  // A row with those that it was wrapped from or into: the text, and the cell of each of its characters.
  lineAt(row) {
    const buffer = this.term.buffer.active, cells = [];
    let first = row, text = "";
    while (first > 0 && row - first < LINK_ROWS && buffer.getLine(first)?.isWrapped) first -= 1;
    for (let y = first; y < first + 2 * LINK_ROWS && (y === first || buffer.getLine(y)?.isWrapped); y++) {
      const line = buffer.getLine(y);
      for (let x = 0; x < (line?.length ?? 0); x++) {
        const cell = line.getCell(x);
        if (!cell.getWidth()) continue; // the second half of a wide character
        const letters = cell.getChars() || " ";
        text += letters;
        for (let n = 0; n < letters.length; n++) cells.push({ x: x + 1, y: y + 1 });
      }
    }
    return { text, cells };
  }
}

const bytesOf = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));

const pen = document.createElement("canvas").getContext("2d");

const within = (number, least, most) => Math.max(least, Math.min(most, number));
