// What the charts share: a canvas as sharp as the screen, the colours of the sheet.

const schemes = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((query) => matchMedia(query));
const colours = new Map();

// The value of a variable of the sheet. It is asked for once for each scheme of colours: asking costs a style pass.
export function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}

// `act` is called when the scheme of colours changes. Answers a function that ends it.
export function onScheme(act) {
  for (const scheme of schemes) scheme.addEventListener("change", act);
  return () => schemes.forEach((scheme) => scheme.removeEventListener("change", act));
}

onScheme(() => colours.clear());

// The canvas's pixels are those of the screen; what is drawn is measured in those of the sheet.
export function fitted(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = devicePixelRatio;
  const context = canvas.getContext("2d");
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}
