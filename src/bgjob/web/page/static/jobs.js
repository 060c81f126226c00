// All jobs as the server has told them, and what each used in the last ten minutes.

const MOST_SAMPLES = 600,
  KEPT_S = 600;
const ANYWHERE = ["id", "name", "command", "cwd", "by"];
const FIELDS = {
  session: "session",
  group: "job_group",
  ...Object.fromEntries(ANYWHERE.map((name) => [name, name])),
};
const GROUPS = { asking: 0, running: 1, queued: 2, ended: 3 };
export const STATUS_WORDS = ["queued", "running", "completed", "failed", "killed"];

export class Jobs {
  constructor() {
    this.rows = new Map();
    this.samples = new Map(); // by id: {at: [], cpu: [], memory: []}
    this.store = { at: [], bytes: [], free: [] };
    this.isComplete = false;
    this.problem = null;
    this.untold = null; // ids that a new server has not told of yet
    this.listeners = new Set();
  }

  // `act` is called with the ids that have changed (null: all) and with what has: "rows" or "samples".
  // Answers a function that ends it.
  onchange(act) {
    this.listeners.add(act);
    return () => this.listeners.delete(act);
  }

  tell(changed, what) {
    for (const act of [...this.listeners]) act(changed, what);
  }

  // `whole`: the server tells everything anew, bit by bit. What is known stays until all is told.
  list({ whole, complete, rows, removed, problem }) {
    if (whole) this.untold = new Set(this.rows.keys());
    for (const row of rows) {
      this.rows.set(row.id, row);
      this.untold?.delete(row.id);
    }
    const gone = new Set(removed);
    if (complete && this.untold) {
      for (const id of this.untold) gone.add(id);
      this.untold = null;
    }
    for (const id of gone) {
      this.rows.delete(id);
      this.samples.delete(id);
    }
    this.isComplete = complete;
    this.problem = problem ?? null;
    this.tell(whole ? null : new Set([...rows.map((row) => row.id), ...gone]), "rows");
  }

  // Of the time when no stream was open.
  history(all) {
    for (const [id, series] of Object.entries(all)) {
      for (const [at, cpu, memory] of series) this.add(id, at, cpu, memory);
    }
    this.tell(new Set(Object.keys(all)), "samples");
  }

  take({ at, jobs, store }) {
    for (const [id, [cpu, memory]] of Object.entries(jobs)) this.add(id, at, cpu, memory);
    for (const [id, series] of this.samples) if (series.at.at(-1) < at - KEPT_S) this.samples.delete(id);
    if (store) push(this.store, { at, bytes: store.bytes, free: store.free_bytes });
    this.tell(new Set(Object.keys(jobs)), "samples");
  }

  add(id, at, cpu, memory) {
    if (!this.samples.has(id)) this.samples.set(id, { at: [], cpu: [], memory: [] });
    const series = this.samples.get(id);
    if (!(series.at.at(-1) >= at)) push(series, { at, cpu, memory });
  }

  asking() {
    let count = 0;
    for (const row of this.rows.values()) count += row.group === "asking";
    return count;
  }
}

function push(series, sample) {
  for (const [name, value] of Object.entries(sample)) {
    series[name].push(value);
    if (series[name].length > MOST_SAMPLES) series[name].shift();
  }
}

// The same words as on the command line (api/filter.py): each must fit. `name=TEXT` looks at one field, a
// path for cwd= means that directory and all below it, other words at id, name, command, directory and who
// started it. Case does not matter. Of a command, a row has the first 300 characters.
export function filterOf(text) {
  const tests = text.split(/\s+/).filter(Boolean).map(testOf);
  return (row) => tests.every((test) => test(row));
}

function testOf(word) {
  const at = word.indexOf("="),
    field = word.slice(0, at),
    value = word.slice(at + 1);
  if (field === "status") return (row) => row.status === value;
  if (field === "target") return (row) => (row.target ?? "local") === value;
  if (field === "cwd" && value.startsWith("/")) {
    const directory = `${value.replace(/\/+$/, "")}/`;
    return (row) => `${row.cwd}/`.startsWith(directory);
  }
  if (Object.hasOwn(FIELDS, field)) return (row) => has(row[FIELDS[field]], value.toLowerCase());
  const anywhere = word.toLowerCase();
  return (row) => ANYWHERE.some((name) => has(row[name], anywhere));
}

const has = (text, word) => (text ?? "").toLowerCase().includes(word);

// What is wrong with the words of a filter; null: nothing.
export function filterProblem(text) {
  const wrong = text
    .split(/\s+/)
    .find((word) => word.startsWith("status=") && !STATUS_WORDS.includes(word.slice(7)));
  if (!wrong) return null;
  return `There is no status “${wrong.slice(7)}”: it is one of ${STATUS_WORDS.join(", ")}.`;
}

// What waits for a person, what runs, what is queued (first come first), what ended last.
export function ordered(rows) {
  return [...rows].sort((a, b) => GROUPS[a.group] - GROUPS[b.group] || later(a, b) || (a.id < b.id ? -1 : 1));
}

function later(a, b) {
  if (a.group === "queued") return a.created - b.created;
  return (b.ended ?? b.created) - (a.ended ?? a.created);
}
