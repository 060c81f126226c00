// Amounts and times in words, as the command line has them: short, and to the precision that matters.

const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];
const LENGTHS = [
  [86400, "d", 3600, "h"],
  [3600, "h", 60, "m"],
  [60, "m", 1, "s"],
];
const WEEK_S = 6 * 86400;
const STATES = { asking: "waits", queued: "queued" };

// A KB has 1024 bytes, as in the limits of a job.
export function bytes(count) {
  let unit = 0;
  while (count >= 999.5 && unit < UNITS.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${unit && count < 9.95 ? count.toFixed(1) : Math.round(count)} ${UNITS[unit]}`;
}

// 0.4s, 12s, 2m05s, 3h20m, 5d4h
export function duration(seconds) {
  for (const [long_s, long, short_s, short] of LENGTHS) {
    if (seconds < long_s) continue;
    const rest = String(Math.floor((Math.floor(seconds) % long_s) / short_s));
    return `${Math.floor(seconds / long_s)}${long}${long === "d" ? rest : rest.padStart(2, "0")}${short}`;
  }
  return seconds < 9.95 ? `${Math.max(0, seconds).toFixed(1)}s` : `${Math.floor(seconds)}s`;
}

// Of something that goes on: whole seconds.
export const soFar = (seconds) => (seconds < 60 ? `${Math.max(0, Math.floor(seconds))}s` : duration(seconds));

const pad = (number) => String(number).padStart(2, "0");

export const clock = (at) => {
  const date = new Date(at * 1000);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
};

export const day = (at) => {
  const date = new Date(at * 1000);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
};

export const moment = (at) => `${day(at)} ${clock(at)}`;

// As short as it can be understood: 14:02, Mon 14:02, 3 Mar, 3 Mar 2025
export function when(at, now = Date.now() / 1000) {
  const date = new Date(at * 1000),
    today = new Date(now * 1000);
  const time = clock(at).slice(0, 5);
  if (date.toDateString() === today.toDateString()) return time;
  if (now - at < WEEK_S) return `${date.toLocaleDateString("en", { weekday: "short" })} ${time}`;
  const month = `${date.getDate()} ${date.toLocaleDateString("en", { month: "short" })}`;
  return date.getFullYear() === today.getFullYear() ? month : `${month} ${date.getFullYear()}`;
}

export const ago = (at, now = Date.now() / 1000) => `${soFar(now - at)} ago`;

export const short = (id) => id.slice(0, 8);

export const title = (row) => row.name || row.command || short(row.id ?? "");

export const count = (number, one, many = `${one}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

// How a job stands, in a word or two. `outcome` of a row says more of how it ended.
export function state(row) {
  if (row.left) return `${row.left} left running`;
  if (STATES[row.group]) return STATES[row.group];
  if (row.group === "running") return row.phase ?? "running";
  return row.cause === "lost" ? "lost" : row.status;
}

// How long a job has run, or ran; null: it was never started.
export function took(row, now = Date.now() / 1000) {
  const began = row.started ?? (row.group === "queued" ? null : row.created);
  return began === null ? null : (row.ended ?? now) - began;
}
