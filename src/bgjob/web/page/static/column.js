// A column of any number of items, of which only those in sight are nodes.
//
// An item has a key and a height. One whose text wraps is `measured`: its height is an estimate until it was
// drawn. Nodes stay while their item is in sight: what has the focus or a half typed text keeps it. They lie
// in the page in the order of the items, for the tab key and for screen readers.

import { element, framed } from "./element.js";

const MARGIN_PX = 300;

export class Column {
  // make(item): {node, update(item)}; the box scrolls.
  constructor(box, make) {
    this.box = box;
    this.make = make;
    this.rows = element("div", { class: "rows", role: "list" });
    box.append(this.rows);
    this.items = [];
    this.tops = new Float64Array(1);
    this.heights = new Map(); // by key: what was measured
    this.drawn = new Map(); // by key: what make has answered
    this.at = new Map(); // by key: index in items
    this.kept = null; // the key of an item that stays a node although it is out of sight
    this.draw = framed(() => this.drawNow());
    box.addEventListener("scroll", this.draw, { passive: true });
    this.observer = new ResizeObserver(() => {
      if (this.width !== box.clientWidth) this.heights.clear();
      this.width = box.clientWidth;
      this.layOut();
      this.draw();
    });
    this.observer.observe(box);
  }

  close() {
    this.observer.disconnect();
  }

  set(items) {
    const stays = this.anchor();
    this.items = items;
    this.at = new Map(items.map((item, index) => [item.key, index]));
    this.layOut();
    stays();
    this.draw();
  }

  // What is on top of the box stays there while items come and go above it. A list that is not scrolled shows
  // its beginning.
  anchor() {
    const { scrollTop } = this.box,
      index = this.indexAt(scrollTop),
      { key } = this.items[index] ?? {},
      top = this.tops[index];
    return () => {
      const now = this.at.get(key);
      if (scrollTop > 0 && now !== undefined) this.box.scrollTop = scrollTop + this.tops[now] - top;
    };
  }

  layOut() {
    const { items } = this;
    const tops = new Float64Array(items.length + 1);
    for (let index = 0; index < items.length; index += 1)
      tops[index + 1] = tops[index] + this.heightOf(items[index]);
    this.tops = tops;
    this.rows.style.height = `${tops[items.length]}px`;
  }

  heightOf(item) {
    return (item.measured && this.heights.get(item.key)) || item.height;
  }

  // The index of the item at this height.
  indexAt(top) {
    let low = 0,
      high = this.items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  drawNow() {
    this.place();
    if (this.measure()) this.place();
  }

  place() {
    const { scrollTop, clientHeight } = this.box;
    const first = this.indexAt(scrollTop - MARGIN_PX),
      last = this.indexAt(scrollTop + clientHeight + MARGIN_PX);
    const shown = this.items.slice(first, last + 1),
      kept = this.at.get(this.kept);
    if (kept < first) shown.unshift(this.items[kept]);
    if (kept > last) shown.push(this.items[kept]);
    const keys = new Set(shown.map((item) => item.key));
    for (const [key, { node }] of this.drawn) {
      if (keys.has(key)) continue;
      node.remove();
      this.drawn.delete(key);
    }
    this.arrange(shown.map((item) => this.nodeOf(item)));
  }

  nodeOf(item) {
    if (!this.drawn.has(item.key)) this.drawn.set(item.key, this.make(item));
    const { node, update } = this.drawn.get(item.key),
      index = this.at.get(item.key);
    update(item);
    node.style.transform = `translateY(${this.tops[index]}px)`;
    return node;
  }

  // A node that is moved loses the focus, so those before it are moved instead.
  arrange(nodes) {
    let next = this.rows.firstChild;
    for (const node of nodes) {
      if (node !== next && node.contains(document.activeElement)) {
        while (next !== node) {
          const after = next.nextSibling;
          this.rows.append(next);
          next = after;
        }
      }
      if (node === next) next = next.nextSibling;
      else this.rows.insertBefore(node, next);
    }
  }

  measure() {
    let hasChanged = false;
    for (const [key, { node }] of this.drawn) {
      const item = this.items[this.at.get(key)];
      if (!item?.measured || node.offsetHeight === this.heightOf(item)) continue;
      this.heights.set(key, node.offsetHeight);
      hasChanged = true;
    }
    if (!hasChanged) return false;
    const stays = this.anchor();
    this.layOut();
    stays();
    return true;
  }

  // Scrolls as little as is needed to have this item in sight, with what is `above` it.
  reveal(key, above = 0) {
    const index = this.at.get(key);
    if (index === undefined) return;
    const top = this.tops[index] - above,
      bottom = this.tops[index + 1];
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (bottom > this.box.scrollTop + this.box.clientHeight)
      this.box.scrollTop = bottom - this.box.clientHeight;
  }
}
