// What is asked before an address that a job has printed is opened, and before lines are pasted.

import { confirmed, dialog } from "./dialog.js";
import { element } from "./element.js";
import { count } from "./words.js";

const SHOWN_PASTE = 2000; // characters
const SCHEMES = ["http:", "https:"];

// A job can print any address, also one that hides where it leads: all of it is shown, the person decides.
export function askToOpen(text) {
  const address = URL.canParse(text) ? new URL(text) : null;
  if (!SCHEMES.includes(address?.protocol)) return;
  const close = () => shown.close();
  const link = { href: address.href, target: "_blank", rel: "noopener noreferrer" };
  const shown = dialog("Open this address?", element("div", {},
    element("p", {}, "The job has printed it."),
    element("p", { class: "address" }, element("code", {}, address.href)),
    element("p", {}, "It leads to ", element("strong", {}, address.host), "."),
    element("p", { class: "choices" },
      element("button", { type: "button", autofocus: true, onclick: close }, "Cancel"), " ",
      element("a", { class: "button", ...link, onclick: close }, "Open in a new tab"))));
}

export function askToPaste(text) {
  const lines = text.replace(/\r?\n$/, "").split(/\r\n|\r|\n/).length;
  const shown = text.length > SHOWN_PASTE ? `${text.slice(0, SHOWN_PASTE)} …` : text;
  return confirmed(`Paste ${count(lines, "line")}?`, [
    element("p", {}, "The job takes each line break as Enter."),
    element("pre", { class: "pasted", tabindex: "0", "aria-label": "The text" }, shown),
  ], "Paste");
}
