// The colours of a terminal: those of the page, and sixteen of terminal.css.

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

export function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const bright = (name) => `bright${name[0].toUpperCase()}${name.slice(1)}`;
  return {
    background: colour("back"),
    foreground: colour("front"),
    cursor: colour("front"),
    cursorAccent: colour("back"),
    selectionBackground: colour("terminal-selection"),
    ...Object.fromEntries(NAMES.map((name) => [name, colour(`terminal-${name}`)])),
    ...Object.fromEntries(NAMES.map((name) => [bright(name), colour(`terminal-bright-${name}`)])),
  };
}

export const font = () => getComputedStyle(document.documentElement).getPropertyValue("--mono").trim();
