// A window of some lines on a log of any size, in a box that scrolls by itself. What is in sight stays where it is when
// lines are added or taken away around it.

import { element } from "./element.js";

export const MOST = 800;

export class LogWindow {
  constructor(box, draw) {
    this.box = box;
    this.draw = draw; // of a line or a gap: its node
    this.rows = element("div", { class: "lines" });
    this.items = []; // lines and gaps with their nodes, by `at`; a gap stands behind a line of the same place
    this.hasStart = this.hasEnd = false; // it reaches to the beginning of the log, to its end
    box.append(this.rows);
  }

  get lines() {
    return this.items.filter((item) => !item.isGap);
  }

  get first() {
    return this.items.find((item) => !item.isGap);
  }

  get last() {
    return this.items.findLast((item) => !item.isGap);
  }

  clear() {
    this.items = [];
    this.rows.replaceChildren();
    this.hasStart = this.hasEnd = false;
  }

  // Pages that lie behind, or before, all that is here.
  append(page) {
    this.steadily(() => {
      const fresh = this.itemsOf(page);
      this.rows.append(...fresh.map((item) => item.node));
      this.items.push(...fresh);
      this.hasEnd = !page.more;
      this.dropFirst();
    });
  }

  prepend(page) {
    this.steadily(() => {
      const fresh = this.itemsOf(page);
      this.rows.prepend(...fresh.map((item) => item.node));
      this.items.unshift(...fresh);
      this.hasStart = !page.more;
      this.dropLast();
    });
  }

  // The same line, as it is now.
  replace(item, line) {
    this.steadily(() => {
      const node = this.draw(line);
      item.node.replaceWith(node);
      this.items[this.items.indexOf(item)] = { ...line, node };
    });
  }

  itemsOf({ lines, dropped }) {
    const gaps = dropped.map((gap) => ({ ...gap, isGap: true }));
    return [...lines, ...gaps].sort((a, b) => a.at - b.at || Boolean(a.isGap) - Boolean(b.isGap))
      .map((item) => ({ ...item, node: this.draw(item) }));
  }

  // A gap at an edge is told again by the page that lies beyond it.
  dropFirst() {
    if (this.items.length <= MOST) return;
    let over = this.items.length - MOST;
    while (this.items[over]?.isGap) over += 1;
    for (const item of this.items.splice(0, over)) item.node.remove();
    this.hasStart = false;
  }

  dropLast() {
    if (this.items.length <= MOST) return;
    let left = MOST;
    while (left > 1 && this.items[left - 1].isGap && this.items[left - 1].at > this.items[left - 2].at) left -= 1;
    for (const item of this.items.splice(left)) item.node.remove();
    this.hasEnd = false;
  }

  // -- what is in sight ---------------------------------------------------------------------------

  steadily(change) {
    const anchor = this.itemAt(this.box.scrollTop), before = anchor?.node.offsetTop;
    change();
    if (anchor?.node.isConnected) this.box.scrollTop += anchor.node.offsetTop - before;
  }

  // The item at a height of the box.
  itemAt(height) {
    let from = 0, to = this.items.length - 1;
    while (from < to) {
      const middle = (from + to + 1) >> 1;
      if (this.items[middle].node.offsetTop <= height) from = middle;
      else to = middle - 1;
    }
    return this.items[from];
  }

  get above() {
    return this.box.scrollTop;
  }

  get below() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight;
  }

  // From which offset of the log to which.
  get sight() {
    const first = this.itemAt(this.box.scrollTop), last = this.itemAt(this.box.scrollTop + this.box.clientHeight - 1);
    return first ? { first, from: first.at, to: last.end ?? last.at } : null;
  }

  // The line that begins at an offset, or lies around it; else the next one.
  find(at) {
    const before = this.items.findLast((item) => !item.isGap && item.at <= at && item.end > at);
    return before ?? this.items.find((item) => !item.isGap && item.at >= at) ?? this.last;
  }

  show(item, share = 1 / 3) {
    this.box.scrollTop = item.node.offsetTop - this.box.clientHeight * share;
  }

  isInSight(item) {
    const top = item.node.offsetTop, bottom = top + item.node.offsetHeight;
    return top >= this.box.scrollTop && bottom <= this.box.scrollTop + this.box.clientHeight;
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
  }
}
