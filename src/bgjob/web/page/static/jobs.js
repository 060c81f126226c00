// All jobs as the server has told them, and what each used in the last ten minutes.

const MOST_SAMPLES = 600;
const ANYWHERE = ["id", "name", "command", "cwd", "by"];
const FIELDS = [...ANYWHERE, "session", "group", "status"];
const GROUPS = { asking: 0, running: 1, queued: 2, ended: 3 };

export class Jobs {
  constructor() {
    this.rows = new Map();
    this.samples = new Map(); // by id: {at: [], cpu: [], memory: []}
    this.store = { at: [], bytes: [], free: [] };
    this.isComplete = false;
    this.problem = null;
    this.listeners = new Set();
  }

  // `act` is called with the ids that have changed; null: all. Answers a function that ends it.
  onchange(act) {
    this.listeners.add(act);
    return () => this.listeners.delete(act);
  }

  tell(changed) {
    for (const act of [...this.listeners]) act(changed);
  }

  list({ whole, complete, rows, removed, problem }) {
    if (whole) this.rows.clear();
    for (const row of rows) this.rows.set(row.id, row);
    for (const id of removed) {
      this.rows.delete(id);
      this.samples.delete(id);
    }
    this.isComplete = complete;
    this.problem = problem;
    this.tell(whole ? null : new Set([...rows.map((row) => row.id), ...removed]));
  }

  history(all) {
    this.samples = new Map();
    for (const [id, series] of Object.entries(all)) {
      for (const [at, cpu, memory] of series) this.add(id, at, cpu, memory);
    }
    this.tell(new Set(Object.keys(all)));
  }

  take({ at, jobs, store }) {
    for (const [id, [cpu, memory]] of Object.entries(jobs)) this.add(id, at, cpu, memory);
    if (store) push(this.store, { at, bytes: store.bytes, free: store.free_bytes });
    this.tell(new Set(Object.keys(jobs)));
  }

  add(id, at, cpu, memory) {
    if (!this.samples.has(id)) this.samples.set(id, { at: [], cpu: [], memory: [] });
    push(this.samples.get(id), { at, cpu, memory });
  }
}

function push(series, sample) {
  for (const [name, value] of Object.entries(sample)) {
    series[name].push(value);
    if (series[name].length > MOST_SAMPLES) series[name].shift();
  }
}

// The same words as on the command line: each must fit. `name=TEXT` looks at one field, a path for cwd= means that
// directory and all below it, other words at id, name, command, directory and who started it. Case does not matter.
export function filterOf(text) {
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map(testOf);
  return (row) => tests.every((test) => test(row));
}

function testOf(word) {
  const at = word.indexOf("="), field = word.slice(0, at), value = word.slice(at + 1);
  if (at < 1 || !FIELDS.includes(field)) return (row) => ANYWHERE.some((name) => has(row[name], word));
  if (field === "status") return (row) => row.status === value;
  if (field === "group") return (row) => has(row.job_group, value);
  if (field === "cwd" && value.startsWith("/")) return (row) => `${row.cwd}/`.toLowerCase().startsWith(`${value.replace(/\/+$/, "")}/`);
  return (row) => has(row[field], value);
}

const has = (text, word) => (text ?? "").toLowerCase().includes(word);

// Who waits for a person, what runs, what is queued, what ended last.
export function ordered(rows) {
  return [...rows].sort((a, b) => GROUPS[a.group] - GROUPS[b.group] || (b.ended ?? b.created) - (a.ended ?? a.created));
}
