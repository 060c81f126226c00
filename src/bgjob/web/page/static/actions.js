// What a person can do with a job, wherever the page shows one.

import { confirmed, dialog } from "./dialog.js";
import { element } from "./element.js";
import { startForm } from "./start.js";
import { address, post } from "./wire.js";
import { title } from "./words.js";

const WORDS = {
  terminated: "was killed",
  already_terminated: "had ended before",
  not_found: "is gone",
  removed: "was removed",
};
export const SIGNALS = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"];

export const isAlive = (row) => row.group !== "ended";
export const canType = (row) =>
  isAlive(row) && !row.left && row.group !== "queued" && Boolean(row.pty || row.stdin);

// Calls a verb of the api, and says what came of it, or why not.
async function done(app, path, body, said) {
  try {
    const answer = await post(path, body);
    app.say(typeof said === "function" ? said(answer) : said);
    return answer ?? {};
  } catch (problem) {
    app.fail(problem);
    return null;
  }
}

export const killJob = async (app, row) =>
  (await confirmed(
    `Kill ${title(row)}?`,
    named(row, "It ends with all its processes. Its output stays."),
    "Kill",
  )) && done(app, "/api/kill", { jobs: [row.id] }, (answer) => ended(row, answer));

export const removeJob = async (app, row) =>
  (await confirmed(
    `Remove ${title(row)}?`,
    named(row, "Its output is deleted. This cannot be undone."),
    "Remove",
  )) && done(app, "/api/remove", { jobs: [row.id] }, (answer) => ended(row, answer));

export async function rerunJob(app, row) {
  const answer = await done(app, "/api/rerun", { job: row.id }, `${title(row)} was started again.`);
  if (answer?.job) app.go({ job: answer.job });
}

export const pauseJob = (app, row) => done(app, "/api/pause", { job: row.id }, `${title(row)} is paused.`);
export const resumeJob = (app, row) => done(app, "/api/resume", { job: row.id }, `${title(row)} goes on.`);
export const signalJob = (app, row, signal) =>
  done(app, "/api/signal", { job: row.id, signal }, `SIG${signal} was sent to ${title(row)}.`);

export function priorityOf(app, row) {
  const number = element("input", {
    type: "number",
    min: "-1000",
    max: "1000",
    step: "1",
    value: "0",
    required: true,
    id: "priority",
  });
  const form = element(
    "form",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        shown.close();
        await done(
          app,
          "/api/priority",
          { job: row.id, priority: Number(number.value) },
          `${title(row)} has priority ${number.value}.`,
        );
      },
    },
    element(
      "p",
      {},
      element("label", { for: "priority" }, "From -1000 to 1000; the higher one starts first. "),
      number,
    ),
    element(
      "p",
      { class: "choices" },
      element("button", { type: "button", onclick: () => shown.close() }, "Cancel"),
      element("button", { class: "main" }, "Set"),
    ),
  );
  const shown = dialog(`Priority of ${title(row)}`, form);
}

const named = (row, text) => [
  element("p", {}, element("code", { class: "wrapped" }, row.command)),
  element("p", {}, text),
];

const ended = (row, { jobs }) => `${title(row)} ${WORDS[jobs?.[row.id]] ?? jobs?.[row.id] ?? "is done"}.`;

export const downloadOf = (row) => address("/api/download", { job: row.id });

// Attach: a terminal has a view of its own; into another job a line is typed below its log.
export const attach = (app, row) =>
  row.pty
    ? app.go({ job: row.id, view: "terminal" })
    : app.go({ job: row.id, view: "log", type: canType(row) ? "1" : "" });

// The entries of a menu for this job.
export function actionsOf(app, row) {
  const mayRun = app.may("run"),
    mayKill = app.may("kill"),
    isRunning = isAlive(row) && row.group !== "queued" && !row.left;
  const look = [
    { name: "Log", key: "l", act: () => app.go({ job: row.id, view: "log" }) },
    row.pty && { name: "Terminal", key: "a", act: () => attach(app, row) },
    !row.pty && canType(row) && mayRun && { name: "Type a line", key: "a", act: () => attach(app, row) },
    { name: "Facts", act: () => app.go({ job: row.id, view: "facts" }) },
    row.group !== "queued" && { name: "Download the output", href: downloadOf(row), download: true },
  ];
  const steer = [
    mayKill && isRunning && row.phase !== "paused" && { name: "Pause", act: () => pauseJob(app, row) },
    mayKill && isRunning && row.phase === "paused" && { name: "Resume", act: () => resumeJob(app, row) },
    mayRun && row.group === "queued" && { name: "Priority …", act: () => priorityOf(app, row) },
    mayRun && { name: "Run again", act: () => rerunJob(app, row) },
    mayRun && { name: "Run again with changes …", act: () => startForm(app, row) },
  ];
  const end = [
    mayKill && isAlive(row) && { name: "Kill …", key: "x", isDanger: true, act: () => killJob(app, row) },
    mayKill && !isAlive(row) && { name: "Remove …", isDanger: true, act: () => removeJob(app, row) },
  ];
  return [look, steer, end]
    .map((group) => group.filter(Boolean))
    .filter((group) => group.length)
    .flatMap((group, at) => (at ? [null, ...group] : group));
}
