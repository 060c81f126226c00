// A log from its first byte to its last, beside it: where lines match, and what is in sight. A click jumps there.

import { element, framed } from "./element.js";

const LEAST_PX = 3;

export class Minimap {
  constructor(jump) {
    this.node = element("canvas", { class: "minimap", "aria-hidden": "true" });
    this.jump = jump; // to a share of the log, from 0 to 1
    this.parts = []; // how many lines match in each part
    this.sight = null; // {from, to}, of the whole
    this.draw = framed(() => this.drawNow());
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.node);
    this.colours = matchMedia("(prefers-color-scheme: dark)");
    this.colours.addEventListener("change", this.draw);
    this.node.addEventListener("pointerdown", (event) => this.drag(event));
    this.node.addEventListener("pointermove", (event) => event.buttons === 1 && this.drag(event));
  }

  close() {
    this.resized.disconnect();
    this.colours.removeEventListener("change", this.draw);
  }

  set(changes) {
    Object.assign(this, changes);
    this.draw();
  }

  drag(event) {
    if (event.type === "pointerdown") this.node.setPointerCapture(event.pointerId);
    this.jump(Math.max(0, Math.min(1, event.offsetY / this.node.clientHeight)));
  }

  drawNow() {
    const { clientWidth: width, clientHeight: height } = this.node, scale = devicePixelRatio;
    if (!width || !height) return;
    this.node.width = width * scale;
    this.node.height = height * scale;
    const canvas = this.node.getContext("2d"), style = getComputedStyle(this.node);
    canvas.scale(scale, scale);
    if (this.sight) {
      const top = height * this.sight.from, tall = Math.max(LEAST_PX, height * (this.sight.to - this.sight.from));
      canvas.fillStyle = style.getPropertyValue("--line");
      canvas.fillRect(0, Math.min(top, height - tall), width, tall);
    }
    const most = Math.max(1, ...this.parts), step = height / this.parts.length;
    canvas.fillStyle = style.getPropertyValue("--ask");
    this.parts.forEach((count, number) => {
      if (!count) return;
      const wide = 3 + (width - 4) * Math.sqrt(count / most);
      canvas.fillRect(0, number * step, wide, Math.max(1, step));
    });
  }
}
