// A menu below a button: arrow keys choose, Escape or a click elsewhere closes it.

import { element } from "./element.js";

// items: [{name, act, href, key, isDanger}]; null draws a line between two groups.
export function openMenu(button, items, label) {
  const menu = element(
    "div",
    { role: "menu", popover: "auto", class: "menu", "aria-label": label },
    items.map((item) => (item ? entry(item) : element("hr", { role: "separator" }))),
  );
  (button.closest("main, header") ?? document.body).append(menu);
  button.setAttribute("aria-expanded", "true");
  menu.addEventListener("toggle", (event) => {
    if (event.newState === "open") return;
    button.setAttribute("aria-expanded", "false");
    menu.remove();
  });
  menu.addEventListener("keydown", (event) => move(menu, event));
  menu.addEventListener("click", () => menu.hidePopover());
  menu.showPopover();
  place(menu, button.getBoundingClientRect());
  entries(menu)[0].focus();
}

function entry({ name, act, href, key, download, isDanger }) {
  const parts = [name, key && element("kbd", { "aria-hidden": "true" }, key)];
  const shared = { role: "menuitem", tabindex: "-1", class: isDanger ? "danger" : null };
  return href
    ? element("a", { ...shared, href, download }, ...parts)
    : element("button", { ...shared, type: "button", onclick: act }, ...parts);
}

const entries = (menu) => [...menu.querySelectorAll("[role=menuitem]")];

function move(menu, event) {
  const all = entries(menu),
    at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Tab") menu.hidePopover();
  if (to === undefined) return;
  all.at(to % all.length).focus();
  event.preventDefault();
}

function place(menu, near) {
  const { width, height } = menu.getBoundingClientRect(),
    edge = 4;
  const left = Math.max(edge, Math.min(near.right - width, innerWidth - width - edge));
  const below = near.bottom + edge,
    isRoom = below + height <= innerHeight;
  menu.style.left = `${left}px`;
  menu.style.top = `${isRoom ? below : Math.max(edge, near.top - height - edge)}px`;
}
