// The page: which view is shown, and what all views share.

import { element } from "./element.js";
import { Jobs } from "./jobs.js";
import { allowStyles } from "./styles_without_inline.js";
import { get, login, Stream } from "./wire.js";
import { title } from "./words.js";

const VIEWS = {
  list: { name: "Jobs", open: () => import("./list.js") },
  timeline: { name: "Timeline", open: () => import("./timeline.js") },
  resources: { name: "Resources", open: () => import("./resources.js") },
  job: { open: () => import("./job.js") },
};
const STATES = {
  open: "",
  lost: "The server does not answer: trying again …",
  closed: "",
  out: "Logged out.",
};
const SAID_MS = 8000;

const main = document.querySelector("#main"), said = document.querySelector("#said");
let view = null, turn = 0;

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
    document.querySelector("#connection").textContent = STATES[state];
    if (state === "out") loggedOut();
  },
});

function loggedOut() {
  app.stream.close();
  view?.close();
  view = null;
  main.replaceChildren(
    element("section", { class: "note" },
      element("h2", {}, "This browser is not logged in"),
      element("p", {}, "Run ", element("code", {}, "bgjob page"), " in a terminal of the machine that runs the server: ",
        "it opens this page, logged in. ", element("code", {}, "bgjob page --print"), " prints the address instead.")));
  document.body.dataset.view = "out";
}

function navigation(name) {
  const links = Object.entries(VIEWS).filter(([, each]) => each.name).map(([key, each]) =>
    element("a", { href: key === "list" ? "/" : `/?view=${key}`, "aria-current": name === key ? "page" : null }, each.name));
  document.querySelector("#views").replaceChildren(...links);
}

async function show() {
  const mine = ++turn;
  const query = Object.fromEntries(new URLSearchParams(location.search));
  const name = query.job ? "job" : VIEWS[query.view] ? query.view : "list"; // of a job, query.view is a part of it
  view?.close();
  view = null;
  app.query = query;
  navigation(name);
  delete document.body.dataset.view;
  const module = await VIEWS[name].open();
  if (mine !== turn) return;
  const place = element("div", { class: `view ${name}` });
  main.replaceChildren(place);
  view = module.open(place, app, query);
  document.title = query.job ? `${title(app.jobs.rows.get(query.job) ?? { command: "job" })} · bgjob` : "bgjob";
  document.body.dataset.view = name;
}

// Links within the page are followed without loading it anew.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || link.target || link.download) return;
  const href = link.getAttribute("href");
  if (href !== "/" && !href.startsWith("/?")) return;
  event.preventDefault();
  history.pushState(null, "", href);
  show();
});

const isTyping = (node) => node.closest?.("input, textarea, select, [contenteditable], .xterm");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (view?.key?.(event)) event.preventDefault();
});

addEventListener("popstate", show);

try {
  allowStyles();
  await login();
  app.store = await get("/api/store");
  app.stream.open();
  await show();
} catch (problem) {
  if (problem.status === 401) loggedOut();
  else main.replaceChildren(element("p", { class: "note" }, problem.message));
}
