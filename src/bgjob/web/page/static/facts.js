// All that is known of a job, as it stands now.

import { element } from "./element.js";
import { get } from "./wire.js";
import { bytes, duration, moment } from "./words.js";

// Between two looks.
const PAUSE_MS = 1000;
const LEFT_OUT = ["command", "hint", "activity"];
const LABELS = {
  job_id: "Id",
  name: "Name",
  status: "Status",
  cause: "Cause",
  exit_code: "Exit code",
  signal: "Signal",
  limit: "Limit",
  reason: "Reason",
  target: "Target",
  node: "Node",
  engine_id: "Number there",
  unreachable_since: "Unreachable since",
  unreachable: "Unreachable because",
  resources: "Asked of the target",
  cwd: "Directory",
  by: "Started by",
  of: "Runs again",
  pty: "Terminal",
  created: "Created",
  started: "Started",
  ended: "Ended",
  duration_s: "Duration",
  phase: "Phase",
  waits_for_input: "Waits for input",
  prompt: "Prompt",
  held_by: "Held by",
  held_since: "Held since",
  position: "Position in the queue",
  priority: "Priority",
  left_running: "Processes left running",
  cpu_s: "CPU time",
  memory_bytes: "Memory",
  ports: "Ports",
  output_bytes: "Output",
  idle_s: "Silent for",
  log: "Log file",
  log_note: "About the log file",
  pid: "Process",
  descendants: "Descendants",
  shell: "Shell",
  stdin: "Input",
  size: "Size of the terminal",
  started_by: "Starter",
  timeout_s: "Time limit",
  limits: "Limits",
  limited_by: "Limited by",
  peak_memory_bytes: "Most memory",
  group: "Group",
  queue: "Queue",
  watch: "Watched for",
  notify: "Notifies",
  restart: "Restart",
  restarts: "Restarts",
  runs: "Earlier runs",
};
const TIMES = ["created", "started", "ended", "held_since", "unreachable_since"];
const LENGTHS = ["duration_s", "cpu_s", "idle_s", "timeout_s"];

export function open(place, app, { job }) {
  const facts = element("dl", {}),
    processes = element("section", {}),
    box = element(
      "div",
      { class: "scroll facts", tabindex: "0", role: "region", "aria-label": "Facts" },
      facts,
      processes,
    );
  place.append(box);
  let timer = 0,
    isOver = false,
    isAsking = false,
    isStale = true;

  async function look() {
    if (isAsking || isOver || !isStale || document.hidden) return;
    isAsking = true;
    isStale = false;
    try {
      draw(await get("/api/job", { job }));
    } catch (problem) {
      if (!isOver && problem.status !== 404) app.fail(problem);
    }
    isAsking = false;
    if (!isOver) timer = setTimeout(look, PAUSE_MS);
  }

  function draw(told) {
    if (isOver) return;
    put(
      facts,
      Object.entries(told).filter(
        ([name, value]) => !LEFT_OUT.includes(name) && value !== false && value?.length !== 0,
      ),
    );
    const tree = told.activity?.tree ?? [];
    processes.replaceChildren(...(tree.length ? [element("h3", {}, "Processes"), treeOf(tree)] : []));
  }

  const touched = () => {
    isStale = true;
    clearTimeout(timer);
    look();
  };
  const end = app.jobs.onchange((changed) => (changed === null || changed.has(job)) && touched());
  look();
  return {
    close() {
      isOver = true;
      clearTimeout(timer);
      end();
    },
  };
}

// Only what has changed is written: a text that is selected stays so.
function put(list, facts) {
  const have = new Map(
    [...list.children].filter((node) => node.tagName === "DIV").map((node) => [node.dataset.name, node]),
  );
  const nodes = facts.map(([name, value]) => {
    const words = inWords(name, value),
      node =
        have.get(name) ??
        element("div", { "data-name": name }, element("dt", {}, LABELS[name] ?? name), element("dd", {}));
    if (node.lastChild.textContent !== words) node.lastChild.textContent = words;
    return node;
  });
  list.replaceChildren(...nodes);
}

function inWords(name, value) {
  if (TIMES.includes(name)) return moment(value);
  if (LENGTHS.includes(name)) return duration(value);
  if (name.endsWith("_bytes")) return bytes(value);
  if (name === "runs") return value.map(runInWords).join("\n");
  if (name === "size") return `${value.rows} rows, ${value.cols} columns`;
  if (value === true) return "yes";
  if (value === false) return "no";
  if (Array.isArray(value)) return value.join(value.some((one) => typeof one === "string") ? "\n" : ", ");
  if (value && typeof value === "object")
    return Object.entries(value)
      .map(([key, each]) => `${key}: ${plain(key, each)}`)
      .join("\n");
  return String(value);
}

const plain = (key, value) =>
  key.endsWith("_bytes") || ["memory", "output", "file_size"].includes(key)
    ? bytes(value)
    : typeof value === "object"
      ? JSON.stringify(value)
      : String(value);

function runInWords({ ended, duration_s, exit_code, signal, limit }) {
  const how = limit ? `over its ${limit} limit` : (signal ?? `exit code ${exit_code}`);
  return `${moment(ended)}  ${how} after ${duration(duration_s)}`;
}

// Each process below its parent.
function treeOf(tree) {
  const known = new Set(tree.map((process) => process.pid)),
    lines = [];
  const add = (process, depth) => {
    const { pid, state, command } = process;
    lines.push(`${String(pid).padStart(7)}  ${state.padEnd(9)}  ${"  ".repeat(depth)}${command}`);
    for (const child of tree) if (child.parent_pid === process.pid) add(child, depth + 1);
  };
  for (const process of tree) if (!known.has(process.parent_pid)) add(process, 0);
  return element("pre", { class: "tree" }, lines.join("\n"));
}
