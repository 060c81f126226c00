import { open as openTerminal } from "./terminal.js";

export const open = (place, app, query) => (query.view === "terminal" ? openTerminal(place, app, query) : { close() {} });
