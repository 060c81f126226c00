// The only way in which this page makes nodes. Text is always text: nothing becomes HTML.
//
//     element("button", { class: "quiet", title: "…", onclick: act }, "Kill")

export function element(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

export function drawing(name, properties = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), properties, children);
}

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// Calls draw in the next frame, however often it is asked to before.
export function framed(draw) {
  let frame = 0;
  return () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      draw();
    });
  };
}

// Text that stays as it is is left alone: a screen reader would hear it again.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
