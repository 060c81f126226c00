// To the server: requests, and the one stream of events that a page has.

import { element } from "./element.js";

const AGAIN_MS = 300,
  AGAIN_MOST_MS = 2000;

export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Each login has a path of its own, and its cookie is sent below that alone: cookies know no ports, and other
// servers of this machine would get it too. Pages of other ports cannot read this storage.
const OWN_PATH = "bgjob-path";
const placed = (path) =>
  path === "/api/login" ? path : path.replace(/^\/api\//, localStorage.getItem(OWN_PATH) ?? "/api/");

async function answered(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Failed(0, "The server does not answer. The page tries again by itself; jobs go on.");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text.trim();
  try {
    message = JSON.parse(text).error ?? message;
  } catch {} // a plain text
  throw new Failed(answer.status, message || `The server answered ${answer.status}.`);
}

export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return `${placed(path)}?${new URLSearchParams(given)}`;
}

export async function get(path, query = {}, options = {}) {
  return (await answered(address(path, query), options)).json();
}

// The header is one that a form of another page cannot send.
export async function post(path, body = {}) {
  const headers = { "content-type": "application/json", "x-bgjob": "1" };
  const answer = await answered(placed(path), { method: "POST", headers, body: JSON.stringify(body) });
  return answer.status === 204 ? null : answer.json();
}

// The key of the address is exchanged for a login, and leaves the address bar and the history. An address
// that was used opens the page where it was used.
export async function login() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    localStorage.setItem(OWN_PATH, (await post("/api/login", { key })).path);
  } catch (problem) {
    if (problem.status !== 401 || !localStorage.getItem(OWN_PATH)) throw problem;
  }
}

// In place of a module that could not be loaded.
export const notThere = () => ({
  open: (place) => {
    const again = element("button", { type: "button", onclick: () => location.reload() }, "Try again");
    place.append(
      element("section", { class: "note" }, element("p", {}, "The server does not answer. "), again),
    );
    return { close() {} };
  },
});

export const decoded = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

export function encoded(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

// Requests of a page may overtake each other: one is under way at a time, and what is typed meanwhile goes
// with the next. What could not be sent is told to `failed`, and not sent again: it may have arrived.
export function typist(send, failed) {
  let waiting = [],
    busy = false;
  return async function type(bytes) {
    waiting.push(bytes);
    if (busy) return;
    busy = true;
    try {
      while (waiting.length) {
        const now = joined(waiting);
        waiting = [];
        await send(now);
      }
    } catch (problem) {
      waiting = [];
      failed(problem);
    } finally {
      busy = false;
    }
  };
}

function joined(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

// One EventSource: for the list of jobs and for the job that is looked at. It is opened anew when the job
// changes, and after an error, from the positions that were reached.
//
// A browser gives a host six connections for all its tabs, so hidden tabs give theirs back. One of them keeps
// it, to count what waits in its title, and so does one that shows a terminal: its user may hold the job.
export class Stream {
  constructor({ list, state }) {
    this.onList = list; // {list, samples, history}: functions of what the server sends
    // "open", "lost", "out" (not logged in) or "closed"; told also to the job's handler `state`
    this.onState = (now) => {
      state(now);
      this.job?.handlers.state?.(now);
    };
    this.position = this.sampled = null; // up to where the page knows the list, and the samples
    this.job = null; // {query, handlers}
    this.source = null;
    this.wait = AGAIN_MS;
    this.timer = 0;
    this.isOver = true; // until it is opened, and when the login has ended
    document.addEventListener("visibilitychange", () => this.seen());
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => event.persisted && this.seen()); // back from another page
  }

  // Adds a job to the stream: query {job, view, at, viewer, size}, handlers by event. The `at` of an event is
  // where the stream goes on when it is opened anew. Answers a function that ends it.
  watch(query, handlers) {
    // the caller may change the query: it holds when the stream is opened next
    const job = { query, handlers };
    this.job = job;
    this.reopen();
    return () => {
      if (this.job !== job) return;
      this.job = null;
      this.reopen();
    };
  }

  begin() {
    this.isOver = false;
    this.open();
  }

  end() {
    this.isOver = true;
    this.close();
  }

  seen() {
    if (!document.hidden) {
      this.release?.();
      if (!this.source) this.reopen();
    } else if (this.job?.query.view !== "terminal") this.rest();
  }

  async rest() {
    if (await this.isTheOneHidden()) return;
    if (!document.hidden) return;
    this.close();
    this.onState("closed");
  }

  // A lock that one tab of the browser has, until it is seen again.
  isTheOneHidden() {
    return new Promise((answer) => {
      if (!navigator.locks) return answer(false);
      navigator.locks.request("bgjob hidden", { ifAvailable: true }, (lock) => {
        answer(Boolean(lock));
        return lock && new Promise((release) => (this.release = release));
      });
    });
  }

  // Views that follow each other in one turn of the event loop make one stream.
  reopen() {
    this.close();
    this.timer = setTimeout(() => this.open(), 0);
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  open() {
    if (this.isOver) return;
    const job = this.job;
    const source = new EventSource(
      address("/api/stream", { list: this.position, sampled: this.sampled, ...job?.query }),
    );
    this.source = source;
    const on = (kind, act) =>
      source.addEventListener(kind, (event) => {
        if (source === this.source) act(JSON.parse(event.data));
      });
    source.addEventListener("open", () => {
      this.wait = AGAIN_MS;
      this.onState("open");
    });
    source.addEventListener("error", () => this.lost(source));
    on("list", (data) => {
      this.position = data.position;
      this.onList.list(data);
    });
    on("samples", (data) => {
      this.sampled = data.at;
      this.onList.samples(data);
    });
    on("history", this.onList.history);
    for (const [kind, act] of Object.entries(job?.handlers ?? {})) {
      on(kind, (data) => {
        if (data.at !== undefined) job.query.at = data.at;
        act(data);
      });
    }
  }

  lost(source) {
    if (source !== this.source) return;
    this.close();
    this.onState("lost");
    this.timer = setTimeout(() => this.again(), this.wait);
    this.wait = Math.min(AGAIN_MOST_MS, 2 * this.wait);
  }

  // An EventSource does not tell why it failed; a request does.
  async again() {
    const timer = this.timer;
    try {
      await get("/api/store");
    } catch (problem) {
      if (problem.status === 401) return this.onState("out");
    }
    if (timer === this.timer && !this.source) this.open();
  }
}
