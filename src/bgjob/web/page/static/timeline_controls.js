// The bar above the timeline: filter, spans, zoom; and the legend below it.

import { element } from "./element.js";
import { MARKS, WAYS } from "./lanes.js";
import { PRESETS, Span } from "./span.js";
import { symbol } from "./symbols.js";

export class Controls {
  constructor(view) {
    this.view = view;
    this.filter = this.filterField();
    this.presets = PRESETS.map((preset) =>
      button(preset.name, preset.words, () => view.choose(new Span({ last: preset.last }))),
    );
    this.live = button("Live", "Ends now, and moves on", () => view.goLive());
    this.pack = button("Packed", "Jobs that do not overlap share a lane", () => this.onPack());
    this.pack.setAttribute("aria-pressed", view.isPacked);
    this.node = element(
      "div",
      { class: "bar" },
      element("label", { for: "filter", class: "unseen" }, "Filter"),
      this.filter,
      group("Span", this.presets),
      group("Zoom", [
        button("−", "Wider (-)", view.wider, "Wider"),
        button("+", "Closer (+)", view.closer, "Closer"),
      ]),
      this.live,
      this.pack,
    );
  }

  filterField() {
    return element("input", {
      type: "search",
      id: "filter",
      placeholder: "Filter",
      autocomplete: "off",
      spellcheck: "false",
      "aria-keyshortcuts": "/",
      value: this.view.text,
      oninput: () => this.view.setFilter(this.filter.value),
      onkeydown: (event) => this.onFilterKey(event),
    });
  }

  // To the lanes; Escape clears the filter.
  onFilterKey(event) {
    if (event.key !== "Escape" && event.key !== "Enter") return;
    if (event.key === "Escape") this.filter.value = "";
    event.preventDefault();
    this.view.setFilter(this.filter.value);
    this.view.scroll.focus();
  }

  onPack() {
    this.view.setPacked(!this.view.isPacked);
    this.pack.setAttribute("aria-pressed", this.view.isPacked);
  }

  show(span) {
    this.presets.forEach((each, at) => each.setAttribute("aria-pressed", span.last === PRESETS[at].last));
    this.live.setAttribute("aria-pressed", span.isLive);
  }
}

const button = (text, title, onclick, label = null) =>
  element("button", { type: "button", title, "aria-label": label, onclick }, text);

const group = (label, buttons) =>
  element("div", { class: "ways", role: "group", "aria-label": label }, buttons);

export function legend() {
  const item = (kind, text) => element("span", { class: "item" }, symbol(kind), text);
  const ways = Object.entries(WAYS).map(([way, { word }]) => item(way, word));
  const marks = Object.entries(MARKS)
    .reverse()
    .map(([kind, { one }]) => item(kind, one));
  return element(
    "p",
    { class: "timeline-legend", "aria-hidden": "true" },
    ways,
    element("span", { class: "between" }),
    marks,
  );
}
