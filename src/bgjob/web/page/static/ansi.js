// A line of output as a terminal would show it in the end: text in spans of one style each. Colours are drawn, moves
// within the line redraw it, nothing else of an escape sequence acts, and what cannot be seen is shown.
//
//     styled("\x1b[1;31mred\x1b[0m") is [{ text: "red", style: { bold: true, ink: 1 } }]
//
// A colour is a number (of the palette of 256) or a text (#rrggbb).

import { element } from "./element.js";

const PLAIN = Object.freeze({});
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;
// A text for the terminal: a title, the clipboard, a link. It ends where it says, or at another control character.
const TEXT = "[^\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f]*", END = "\\x07|\\x1b\\\\|\\x9c";
// Sequences, then single characters.
const SEQUENCE = new RegExp(
  [
    "(?:\\x1b\\[|\\x9b)(?<numbers>[0-9;:]*)(?<act>[mKCDG])",
    "(?:\\x1b\\[|\\x9b)[0-?]*[ -/]*[@-~]?",
    `\\x1b[\\]PX^_]${TEXT}(?:${END})?`,
    `[\\x90\\x98\\x9d-\\x9f]${TEXT}(?:${END})`,
    "\\x1b[ -/]*[0-~]?",
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]",
  ].join("|"),
  "g",
);
const STYLES = { 1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "struck", 21: "underline" };
const ENDS = { 22: ["bold", "faint"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["struck"], 39: ["ink"], 49: ["paper"] };
const MOST_COLUMNS = 1 << 14;

// What is not seen, or turns the direction of text: each run is shown as one U+FFFD. Emoji keep what joins them.
const UNSEEN = "\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164" +
  "\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\ud800-\\udfff";
const HIDDEN = new RegExp(`[${UNSEEN}]+`, "gu");
const EMOJI = /[\u2100-\u2bff\u{1f000}-\u{1faff}]$/u, KEYCAP = /[#*0-9©®‼⁉〰〽㊗㊙]$/u, STARTS_EMOJI = /^[\u2100-\u2bff\u{1f000}-\u{1faff}]/u;
const HARMLESS = /^[\ufe00-\ufe0f\ufeff\u{e0100}-\u{e01ef}]$/u; // a choice of glyph, a byte order mark

export function styled(text) {
  const shown = CONTROLS.test(text) ? redrawn(text) : [{ text, style: PLAIN }];
  return shown.map(({ text, style }) => ({ text: seen(text), style })).filter((part) => part.text);
}

function seen(text) {
  return text.replace(HIDDEN, (run, at) => {
    const before = text.slice(Math.max(0, at - 2), at), after = text.slice(at + run.length, at + run.length + 2);
    if (/^[\ufe0e\ufe0f]$/.test(run) && (EMOJI.test(before) || KEYCAP.test(before))) return run;
    if (/^\ufe0f?\u200d$/.test(run) && EMOJI.test(before) && STARTS_EMOJI.test(after)) return run;
    return HARMLESS.test(run) ? "" : "\ufffd";
  });
}

// -- one line of a terminal --------------------------------------------------------------------------

function redrawn(text) {
  const line = new TerminalLine();
  let at = 0;
  for (const found of text.matchAll(SEQUENCE)) {
    line.write(text.slice(at, found.index));
    at = found.index + found[0].length;
    const { act, numbers } = found.groups;
    if (act) line[act](numbers);
    else if (found[0] === "\r") line.column = 0;
    else if (found[0] === "\b") line.column = Math.max(0, line.column - 1);
  }
  line.write(text.slice(at));
  return line.parts();
}

class TerminalLine {
  constructor() {
    this.cells = []; // [character, style]
    this.column = 0;
    this.style = PLAIN;
  }

  write(text) {
    for (const character of text) this.cells[this.column++] = [character, this.style];
  }

  m(numbers) {
    this.style = restyled(this.style, numbers);
  }

  // A move ends at most one column behind the text.
  C(numbers) {
    this.to(this.column + (Number(numbers) || 1));
  }

  D(numbers) {
    this.to(this.column - (Number(numbers) || 1));
  }

  G(numbers) {
    this.to((Number(numbers) || 1) - 1);
  }

  to(column) {
    this.column = Math.max(0, Math.min(column, Math.max(this.column, this.cells.length), MOST_COLUMNS)) || 0;
  }

  K(part) {
    if (part === "2") this.cells = [];
    else if (part === "1") this.cells.fill([" ", PLAIN], 0, this.column + 1);
    else this.cells.length = Math.min(this.cells.length, this.column);
  }

  parts() {
    const parts = [];
    for (const [character, style] of Array.from(this.cells, (cell) => cell ?? [" ", PLAIN])) {
      if (parts.at(-1)?.style === style) parts.at(-1).text += character;
      else parts.push({ text: character, style });
    }
    return parts;
  }
}

// -- styles ------------------------------------------------------------------------------------------

function restyled(style, numbers) {
  const next = { ...style }, given = numbers.split(";");
  for (let at = 0; at < given.length; at += 1) {
    const [number, ...parts] = given[at].split(":").map(Number);
    if (number === 0) for (const name of Object.keys(next)) delete next[name];
    else if (number === 4 && parts[0] === 0) delete next.underline;
    else if (STYLES[number]) next[STYLES[number]] = true;
    else if (ENDS[number]) for (const name of ENDS[number]) delete next[name];
    else if (number === 38 || number === 48) {
      const rest = parts.length ? parts : given.slice(at + 1, at + 5).map(Number);
      const colour = colourOf(parts.length === 5 ? parts.filter((_, index) => index !== 1) : rest); // 38:2::r:g:b
      if (colour !== null) next[number === 38 ? "ink" : "paper"] = colour;
      if (!parts.length) at += rest[0] === 5 ? 2 : rest[0] === 2 ? 4 : 0;
    } else {
      const [name, colour] = ofSixteen(number);
      if (name) next[name] = colour;
    }
  }
  return next;
}

function ofSixteen(number) {
  if (number >= 30 && number <= 37) return ["ink", number - 30];
  if (number >= 90 && number <= 97) return ["ink", number - 82];
  if (number >= 40 && number <= 47) return ["paper", number - 40];
  if (number >= 100 && number <= 107) return ["paper", number - 92];
  return [];
}

function colourOf([kind, ...values]) {
  const isByte = (value) => Number.isInteger(value) && value >= 0 && value < 256;
  if (kind === 5 && isByte(values[0])) return values[0];
  if (kind === 2 && values.slice(0, 3).every(isByte) && values.length >= 3) return hex(values.slice(0, 3));
  return null;
}

const hex = (values) => `#${values.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
const step = (value) => (value ? 55 + 40 * value : 0);

// The first 16 are those of the style sheet, then a cube of 6 by 6 by 6, then greys.
function css(colour) {
  if (typeof colour === "string") return colour;
  if (colour < 16) return `var(--ansi-${colour})`;
  if (colour >= 232) return hex(Array(3).fill(8 + 10 * (colour - 232)));
  const place = colour - 16;
  return hex([Math.floor(place / 36), Math.floor(place / 6) % 6, place % 6].map(step));
}

// -- nodes -------------------------------------------------------------------------------------------

export function spans(parts) {
  return parts.map(({ text, style, isMatch }) => {
    if (isMatch) return element("mark", {}, text); // in the colours of a match
    const classes = Object.keys(style).filter((name) => style[name] === true && name !== "inverse");
    const { ink, paper } = style.inverse ? { ink: style.paper ?? "var(--back)", paper: style.ink ?? "var(--front)" } : style;
    if (ink !== undefined) classes.push("ink");
    if (paper !== undefined) classes.push("paper");
    if (!classes.length) return text;
    const span = element("span", { class: classes.join(" ") }, text);
    if (ink !== undefined) span.style.setProperty("--ink", css(ink));
    if (paper !== undefined) span.style.setProperty("--paper", css(paper));
    return span;
  });
}

// The same parts, cut where matches begin and end. `marks` is the text as the search saw it: text, match, text, match, …
export function marked(parts, marks) {
  const ends = matchEnds(parts.map((part) => part.text).join(""), marks);
  const cut = [];
  let at = 0;
  for (const { text, style } of parts) {
    let from = 0;
    while (from < text.length) {
      const next = ends.find((end) => end.at > at + from)?.at ?? Infinity;
      const to = Math.min(text.length, next - at);
      cut.push({ text: text.slice(from, to), style, isMatch: ends.findLast((end) => end.at <= at + from)?.begins ?? false });
      from = to;
    }
    at += text.length;
  }
  return cut;
}

// Where matches begin and end in the text that is shown. If the search saw another one, its matches are looked for.
function matchEnds(text, marks) {
  const ends = [], isSame = marks.join("").trimEnd() === text.trimEnd();
  let at = 0;
  marks.forEach((part, number) => {
    const isMatch = number % 2 === 1;
    const from = isSame ? at : isMatch ? text.indexOf(part, at) : at;
    if (isMatch && from >= 0) ends.push({ at: from, begins: true }, { at: from + part.length, begins: false });
    if (isSame || (isMatch && from >= 0)) at = from + part.length;
  });
  return ends;
}
