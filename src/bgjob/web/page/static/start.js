// The form that starts a job: all options of execute_command, made from its schema.

import { dialog } from "./dialog.js";
import { element } from "./element.js";
import { fieldOf, schemaOf } from "./fields.js";
import { keep, kept } from "./kept.js";
import { get, post } from "./wire.js";
import { title } from "./words.js";

const FRONT = ["command", "name", "target", "cwd", "pty"];
// How long the caller of a tool waits for its answer, and how much of it: the page shows the job instead.
// `limits` is an older name for some of the options.
const OF_CALLERS = ["wait_s", "until", "max_tokens", "limits", "kill_on_cancel"];
const GROUPS = {
  "Input and terminal": ["stdin", "rows", "cols", "shell", "env"],
  "When it runs": ["if_running", "queue", "after", "after_policy", "delay_s", "priority", "group"],
  Limits: [
    "timeout_s",
    "memory",
    "cpu_s",
    "processes",
    "open_files",
    "file_size",
    "silence_s",
    "output",
    "on_output",
    "cgroup",
  ],
  "Asked of the target": ["cpus", "gpus", "time_limit", "labels", "session"],
  Restarts: ["restart", "max_restarts", "backoff_s"],
  "Who is told": ["watch", "notify"],
};
const OTHERS = "More";
const LABELS = {
  command: "Command",
  name: "Name",
  target: "Where",
  cwd: "Directory",
  pty: "On a terminal",
  stdin: "Input",
  rows: "Rows of the terminal",
  cols: "Columns of the terminal",
  shell: "Shell",
  env: "Variables",
  if_running: "If one of this name runs",
  queue: "Wait for a free slot",
  after: "After these jobs",
  after_policy: "After they ended by",
  delay_s: "Not before, in seconds",
  priority: "Priority",
  group: "Group",
  timeout_s: "Time, in seconds",
  memory: "Memory",
  cpu_s: "CPU time, in seconds",
  processes: "Processes",
  open_files: "Open files",
  file_size: "Size of a file",
  silence_s: "Silence, in seconds",
  output: "Output",
  on_output: "When the output is full",
  cgroup: "Control group",
  cpus: "CPUs",
  gpus: "GPUs",
  time_limit: "Time limit",
  labels: "Labels of the node",
  session: "Session",
  restart: "Run again when it ends",
  max_restarts: "At most so often",
  backoff_s: "First pause, in seconds",
  watch: "Watch for lines",
  notify: "Notify",
};
// Where the words of the schema speak to a model.
const ABOUT = {
  command: "One text for the shell, e.g. npm ci && npm test",
  name: "To find it by, e.g. dev",
  target: "Default: this machine",
  cwd: "Default: that of the server",
  pty: "For REPLs, editors, menus and programs that ask for a password",
  stdin: "open: it can be typed into; null: it is at its end",
  rows: "At most 500",
  cols: "At most 1000",
  shell: "bash, sh, dash, zsh or ksh, if it is installed",
  env: "Added to those of the server. For secrets: other users can see the command, but not these",
  timeout_s: "The job is killed after so long",
  after: "Ids or names: it starts when they have succeeded",
  after_policy: "success, or any end",
  watch: "RE2; each line that matches becomes an event",
  if_running: "Start another, use it, fail, or kill it first",
  queue: "If as many jobs run as may",
};

// `row`: a job whose options are put into the form.
export async function startForm(app, row = null) {
  const fields = fieldsOf(app);
  const problem = element("p", { class: "problem", role: "alert" });
  const submit = element("button", { class: "main" }, "Start");
  const more = element(
    "details",
    {},
    element("summary", {}, "More options"),
    groupsOf(fields).map(([name, own]) =>
      element(
        "fieldset",
        {},
        element("legend", {}, name),
        own.map((field) => field.node),
      ),
    ),
  );
  const note =
    row &&
    element(
      "p",
      { class: "quiet" },
      "Its variables are not shown, and not handed on: add those that it needs.",
    );
  const form = element(
    "form",
    {
      class: "start",
      onsubmit: (event) => {
        event.preventDefault();
        start();
      },
    },
    FRONT.map((name) => fields.get(name)?.node),
    note,
    more,
    problem,
    element(
      "p",
      { class: "choices" },
      element("button", { type: "button", onclick: () => shown.close() }, "Cancel"),
      submit,
    ),
  );

  async function start() {
    problem.textContent = "";
    for (const field of fields.values()) field.mark(false);
    submit.disabled = true;
    try {
      const asked = argumentsOf(app, fields);
      const { job } = await post("/api/start", asked);
      keep("start cwd", asked.cwd ?? "");
      shown.close();
      app.go({ job });
    } catch (failed) {
      submit.disabled = false;
      if (failed.status === 401) return app.fail(failed);
      tell(failed.message);
    }
  }

  function tell(message) {
    problem.textContent = message;
    const field =
      fields.get(message.match(/^(\w+)\b/)?.[1]) ??
      (/command/i.test(message.split(".")[0]) ? fields.get("command") : null);
    field?.mark(true);
    if (field && more.contains(field.node)) more.open = true;
    (field ?? fields.get("command")).focus();
  }

  // Ctrl and Enter starts it: in the command, Enter is a new line.
  form.addEventListener(
    "keydown",
    (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.requestSubmit(),
  );
  const shown = dialog(row ? `Run ${title(row)} again` : "New job", element("div", {}, lists(app), form), {
    className: "start",
  });
  fields.get("cwd")?.set(kept("start cwd", ""));
  fields.get("command").focus();
  if (row) await fill(app, row, fields, more);
}

// By name: those of the tool, and those of its `options`, which are fields like the others.
function fieldsOf(app) {
  const { options: _, ...properties } = app.store.start.properties;
  const schemas = {
    ...properties,
    ...Object.fromEntries(
      Object.entries(app.store.options).map(([name, accepted]) => [name, schemaOf(accepted)]),
    ),
  };
  const names = Object.keys(schemas).filter((name) => !OF_CALLERS.includes(name));
  const more = {
    command: { isLong: true },
    cwd: { list: "start-directories" },
    after: { list: "start-jobs" },
  };
  return new Map(
    names.map((name) => [
      name,
      fieldOf(name, schemas[name], {
        label: LABELS[name] ?? name,
        about: ABOUT[name] ?? schemas[name].description,
        ...more[name],
      }),
    ]),
  );
}

function groupsOf(fields) {
  const placed = new Set([...FRONT, ...Object.values(GROUPS).flat()]);
  const others = [...fields.keys()].filter((name) => !placed.has(name));
  return Object.entries({ ...GROUPS, [OTHERS]: others })
    .map(([name, names]) => [name, names.map((each) => fields.get(each)).filter(Boolean)])
    .filter(([, own]) => own.length);
}

function argumentsOf(app, fields) {
  const asked = {},
    options = {};
  for (const [name, field] of fields) {
    const value = field.get();
    if (value !== undefined) (name in app.store.options ? options : asked)[name] = value;
  }
  return Object.keys(options).length ? { ...asked, options } : asked;
}

// What can be chosen from: directories and jobs that are known.
function lists(app) {
  const rows = [...app.jobs.rows.values()];
  const directories = [...new Set(rows.map((row) => row.cwd).filter(Boolean))].slice(0, 30);
  const jobs = rows
    .filter((row) => row.group !== "ended")
    .slice(0, 50)
    .map((row) => row.name || row.id);
  const list = (id, values) =>
    element(
      "datalist",
      { id },
      values.map((value) => element("option", { value })),
    );
  return element("div", { hidden: true }, list("start-directories", directories), list("start-jobs", jobs));
}

// What was asked of a target, as the form has it.
function resourcesOf({ resources: { memory_bytes: memory, time_limit_s: seconds, labels, ...others } = {} }) {
  const pairs = Object.entries(labels ?? {}).map((pair) => pair.join("="));
  return { ...others, memory, time_limit: seconds, labels: pairs.join(",") || undefined };
}

async function fill(app, row, fields, more) {
  let job;
  try {
    job = await get("/api/job", { job: row.id });
  } catch (problem) {
    return app.fail(problem);
  }
  const shell = job.shell?.split("/").at(-1);
  const given = {
    command: job.command,
    name: job.name,
    target: job.target,
    cwd: job.cwd,
    pty: job.pty,
    ...job.size,
    stdin: job.stdin,
    shell: shell === "bash" ? "" : shell,
    timeout_s: job.timeout_s,
    watch: job.watch,
    group: job.group,
    ...resourcesOf(job),
    ...job.limits,
    ...(job.restart
      ? { restart: job.restart.policy, max_restarts: job.restart.max, backoff_s: job.restart.backoff_s }
      : {}),
  };
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && value !== null) fields.get(name)?.set(value);
  more.open = ["watch", "timeout_s", "limits", "restart", "group", "resources"].some((name) => job[name]);
}
