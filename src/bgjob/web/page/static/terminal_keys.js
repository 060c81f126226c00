// Keys that the keyboard of a phone does not have, as a row of buttons.

import { element } from "./element.js";

const ARROWS = { "←": ["Left", "D"], "↑": ["Up", "A"], "↓": ["Down", "B"], "→": ["Right", "C"] };

// What Ctrl makes of a character; null: nothing.
export function withCtrl(letter) {
  if (letter === " ") return "\0";
  const code = letter.toUpperCase().charCodeAt(0);
  return letter.length === 1 && code >= 0x40 && code <= 0x5f ? String.fromCharCode(code & 0x1f) : null;
}

export class KeyRow {
  // press(text) sends it; paste() pastes; isApplication(): whether arrow keys have their application form.
  constructor({ press, paste, isApplication }) {
    const usual = { type: "button", tabindex: "-1", onmousedown: keepFocus };
    const button = (text, act, more = {}) => element("button", { ...usual, onclick: act, ...more }, text);
    this.ctrl = button("Ctrl", () => this.hold(!this.isCtrl), { "aria-pressed": "false" });
    this.node = element("div", { class: "phone-keys", role: "toolbar", "aria-label": "Keys" },
      button("Esc", () => press("\x1b")),
      button("Tab", () => press("\t")),
      this.ctrl,
      Object.entries(ARROWS).map(([sign, [name, letter]]) =>
        button(sign, () => press(`\x1b${isApplication() ? "O" : "["}${letter}`), { "aria-label": name })),
      navigator.clipboard?.readText && button("Paste", paste));
    this.isCtrl = false;
  }

  hold(isCtrl) {
    this.isCtrl = isCtrl;
    this.ctrl.setAttribute("aria-pressed", isCtrl);
  }

  // The text of a key, changed if Ctrl was pressed before it.
  changed(text) {
    if (!this.isCtrl || typeof text !== "string") return text;
    this.hold(false);
    return withCtrl(text) ?? text;
  }

  set isOff(isOff) {
    for (const button of this.node.querySelectorAll("button")) button.disabled = isOff;
  }
}

// Else the phone's keyboard goes away.
const keepFocus = (event) => event.preventDefault();
