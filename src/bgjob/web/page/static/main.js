// The page: which view is shown, and what all views share.

import { help } from "./dialog.js";
import { element } from "./element.js";
import { icon } from "./icons.js";
import { Jobs } from "./jobs.js";
import { startForm } from "./start.js";
import { allowStyles } from "./styles_without_inline.js";
import { get, login, notThere, Stream } from "./wire.js";
import { title } from "./words.js";

const VIEWS = {
  list: { name: "Jobs", open: () => import("./list.js") },
  timeline: { name: "Timeline", key: "t", open: () => import("./timeline.js") },
  resources: { name: "Resources", key: "r", open: () => import("./resources.js") },
  job: { open: () => import("./job.js") },
};
const AWAY = "The server does not answer. Jobs go on; the page tries again …";
// A server that is back sooner was not missed.
const AWAY_AFTER_MS = 700;
const SAID_MS = 8000;

const main = document.querySelector("#main"),
  said = document.querySelector("#said");
const connection = document.querySelector("#connection");
let view = null,
  viewName = null,
  turn = 0,
  away = 0;

const app = {
  jobs: new Jobs(),
  query: {},
  store: null, // what the server says of itself: scopes, limits, the form of a start
  get scopes() {
    return this.store?.scopes ?? [];
  },
  may: (scope) => app.scopes.includes(scope),
  say(text) {
    said.textContent = text;
    clearTimeout(app.said);
    app.said = setTimeout(() => (said.textContent = ""), SAID_MS);
  },
  fail: (problem) => (problem.status === 401 ? loggedOut() : app.say(problem.message)),
  // Shows another view; `replace`: the address changes, and the way back does not.
  go(query, { replace = false } = {}) {
    const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
    history[replace ? "replaceState" : "pushState"](null, "", text ? `/?${text}` : "/");
    if (!replace) show();
  },
};

app.stream = new Stream({
  list: {
    list: (data) => app.jobs.list(data),
    samples: (data) => app.jobs.take(data),
    history: (data) => app.jobs.history(data),
  },
  state: (state) => {
    document.body.dataset.connection = state;
    if (state === "out") loggedOut();
    if (state !== "lost") {
      clearTimeout(away);
      away = 0;
      connection.textContent = "";
    } else away ||= setTimeout(() => (connection.textContent = AWAY), AWAY_AFTER_MS);
  },
});

function loggedOut() {
  app.stream.end();
  clearTimeout(away);
  connection.textContent = "";
  view?.close();
  view = viewName = null;
  turn += 1;
  app.store = null;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  document.querySelector("#views").replaceChildren();
  document.querySelector("#always").replaceChildren();
  main.replaceChildren(
    element(
      "section",
      { class: "note" },
      element("h2", {}, "This browser is not logged in"),
      element(
        "p",
        {},
        "Run ",
        element("code", {}, "bgjob page"),
        " in a terminal of the machine that runs the server: ",
        "it opens this page, logged in. ",
        element("code", {}, "bgjob page --print"),
        " prints the address instead.",
      ),
    ),
  );
  document.title = "bgjob";
  document.body.dataset.view = "out";
}

// -- head --------------------------------------------------------------------------------------------

function navigation(name) {
  const links = Object.entries(VIEWS)
    .filter(([, each]) => each.name)
    .map(([key, each]) =>
      element(
        "a",
        {
          href: key === "list" ? "/" : `/?view=${key}`,
          "aria-current": name === key ? "page" : null,
        },
        each.name,
      ),
    );
  document.querySelector("#views").replaceChildren(...links);
}

function alwaysThere() {
  const start = element(
    "button",
    { type: "button", class: "main", "aria-keyshortcuts": "n", onclick: () => startForm(app) },
    icon("plus"),
    element("span", {}, "New job"),
  );
  const keys = element("button", { type: "button", "aria-label": "Keys", title: "Keys", onclick: help }, "?");
  document.querySelector("#always").replaceChildren(...(app.may("run") ? [start] : []), keys);
}

// What waits is counted in the title: it is read although the tab is not. A hidden tab has no frames, but a
// clock.
let entitling = 0;
const entitle = () =>
  (entitling ||= setTimeout(() => {
    entitling = 0;
    if (!app.store) return;
    const asking = app.jobs.asking(),
      row = app.jobs.rows.get(app.query.job);
    const name = app.query.job ? `${row ? title(row) : "job"} · bgjob` : "bgjob";
    document.title = asking ? `(${asking}) ${name}` : name;
  }));

app.jobs.onchange((_, what) => what === "rows" && entitle());

// -- views -------------------------------------------------------------------------------------------

async function show() {
  const mine = ++turn;
  const query = Object.fromEntries(new URLSearchParams(location.search));
  const name = query.job ? "job" : Object.hasOwn(VIEWS, query.view) && query.view !== "job" ? query.view : "list";
  app.query = query;
  navigation(name);
  entitle();
  if (view && viewName === name && view.change?.(query)) return; // another part of the same job
  view?.close();
  view = viewName = null;
  delete document.body.dataset.view;
  const module = await VIEWS[name].open().catch(notThere);
  if (mine !== turn) return;
  const place = element("div", { class: `view ${name}` });
  main.replaceChildren(place);
  view = module.open(place, app, query);
  viewName = name;
  document.body.dataset.view = name;
}

// Links within the page are followed without loading it anew.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const isPlain =
    !event.defaultPrevented &&
    !event.button &&
    !event.metaKey &&
    !event.ctrlKey &&
    !event.shiftKey &&
    !event.altKey;
  if (!link || !isPlain || link.target || link.hasAttribute("download")) return;
  const href = link.getAttribute("href");
  if (href !== "/" && !href.startsWith("/?")) return;
  event.preventDefault();
  if (href !== location.pathname + location.search) history.pushState(null, "", href);
  show();
});

// -- keys --------------------------------------------------------------------------------------------

const FIELDS =
  "input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable], .xterm";
// A field of a dialog that was closed this moment still has the focus.
const isTyping = (node) => node.closest?.(FIELDS) && node.checkVisibility();
const isElsewhere = () => document.querySelector("dialog[open], :popover-open");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || isElsewhere()) return;
  if (app.store && (view?.key?.(event) || key(event))) event.preventDefault();
});

function key(event) {
  const to = Object.keys(VIEWS).find((name) => VIEWS[name].key === event.key);
  if (to) app.go({ view: to });
  else if (event.key === "?") help();
  else if (event.key === "n" && app.may("run")) startForm(app);
  else if (event.key === "Escape" && viewName !== "list") app.go({});
  else return false;
  return true;
}

// -- begin -------------------------------------------------------------------------------------------

addEventListener("popstate", show);

function cannotBegin(problem) {
  main.replaceChildren(
    element(
      "section",
      { class: "note" },
      element("h2", {}, "The page cannot begin"),
      element("p", {}, problem.message),
      element(
        "p",
        {},
        element("button", { type: "button", class: "main", onclick: () => location.reload() }, "Try again"),
      ),
    ),
  );
  document.body.dataset.view = "problem";
}

try {
  allowStyles();
  await login();
  app.stream.begin();
  app.store = await get("/api/store");
  alwaysThere();
  await show();
} catch (problem) {
  if (problem.status === 401) loggedOut();
  else cannotBegin(problem);
}
