// Pointers on a chart, by what they mean. A finger and a mouse do the same, but for what is said here.
//
//     hover(x, y), leave()    the pointer is there, or not any more
//     click(x, y, isTouch)
//     pan(dx, dy)             dragged by so much; of a finger, the browser itself scrolls up and down
//     select(x0, x1, isOver)  dragged over a span: with shift, or from a place where `selects(y)`
//     zoom(factor, x)         wheel with Ctrl, pinch; the plain wheel where `selects(y)`
//     cancel()                what was begun is not done

const CLICK_PIXELS = 5;
const WHEEL_LINE = 16;
const WHEEL_ZOOM = 0.0016;

export function gestures(node, { hover, leave, click, pan, select, zoom, cancel, selects }) {
  const pointers = new Map(); // by id: {x, y}
  let drag = null; // {x, y, kind: "press" | "pan" | "select" | "pinch"}

  const place = (event) => {
    const box = node.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const down = (event) => {
    const at = place(event);
    if (event.button || at.x > node.clientWidth) return; // its scrollbar
    pointers.set(event.pointerId, at);
    node.setPointerCapture(event.pointerId);
    if (pointers.size === 2) {
      if (drag?.kind === "select") cancel();
      drag = { kind: "pinch" };
      return leave();
    }
    drag = { ...at, kind: event.shiftKey || selects(at.y) ? "span" : "press" };
  };
  const move = (event) => {
    const at = place(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") hover(at.x, at.y);
      return;
    }
    pointers.set(event.pointerId, at);
    if (drag?.kind === "pinch") return pinch(before, at, event.pointerId);
    if (
      !drag ||
      (["press", "span"].includes(drag.kind) && Math.hypot(at.x - drag.x, at.y - drag.y) < CLICK_PIXELS)
    )
      return;
    drag.kind = { press: "pan", span: "select" }[drag.kind] ?? drag.kind;
    leave();
    if (drag.kind === "select") select(drag.x, at.x, false);
    else pan(at.x - before.x, event.pointerType === "touch" ? 0 : at.y - before.y);
  };

  function pinch(before, at, id) {
    const other = [...pointers].find(([each]) => each !== id)?.[1];
    if (!other) return;
    const from = Math.max(8, Math.hypot(before.x - other.x, before.y - other.y));
    const to = Math.max(8, Math.hypot(at.x - other.x, at.y - other.y));
    zoom(from / to, (at.x + other.x) / 2);
    pan((at.x - before.x) / 2, 0);
  }

  const up = (event) => {
    const at = place(event);
    const kind = drag?.kind;
    if (!pointers.delete(event.pointerId) || kind === "pinch") {
      if (!pointers.size) drag = null;
      return;
    }
    const begun = drag;
    drag = null;
    if (kind === "select") select(begun.x, at.x, true);
    else if (kind === "press" || kind === "span") click(at.x, at.y, event.pointerType === "touch");
  };
  const cancelled = (event) => {
    pointers.delete(event.pointerId);
    if (drag?.kind === "select") cancel();
    drag = null;
  };
  // A finger that is lifted leaves, too: what it has shown stays.
  const leaving = (event) => {
    if (event.pointerType !== "touch" && !pointers.has(event.pointerId)) leave();
  };

  const wheel = (event) => {
    const { x, y } = place(event);
    const unit = event.deltaMode ? WHEEL_LINE : 1;
    const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey || event.metaKey || (selects(y) && !isSideways)) {
      zoom(
        Math.exp(event.deltaY * unit * WHEEL_ZOOM * (event.ctrlKey && Math.abs(event.deltaY) < 40 ? 5 : 1)),
        x,
      );
    } else if (isSideways) pan(-unit * (event.deltaX || event.deltaY), 0);
    else return; // the lanes scroll
    event.preventDefault();
  };

  node.addEventListener("pointerdown", down);
  node.addEventListener("pointermove", move);
  node.addEventListener("pointerup", up);
  node.addEventListener("pointercancel", cancelled);
  node.addEventListener("pointerleave", leaving);
  node.addEventListener("wheel", wheel, { passive: false });
}
