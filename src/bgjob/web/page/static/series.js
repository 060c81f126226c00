// What jobs used over the last ten minutes, as the charts of the resources draw it: series of the same times.

// As long as what was measured, but ten minutes at most.
const WINDOWS_S = [60, 120, 300, 600];
export const SLOTS = 6;
const REST = "rest";
// A start takes a moment: that is no waiting.
const QUEUED_S = 1;

// {from, to, times, jobs: [{id, cpu, memory}]}: each has a value, or NaN, for each time.
export function used(samples, store) {
  const last = (times) => times.at(-1) ?? 0;
  const all = [store.at, ...[...samples.values()].map((series) => series.at)].filter((times) => times.length);
  const to = Math.max(...all.map(last), all.length ? 0 : Date.now() / 1000);
  const first = Math.min(to, ...all.map((times) => times[0]));
  const from = to - (WINDOWS_S.find((window) => window >= to - first) ?? WINDOWS_S.at(-1));
  const times = [...new Set([...samples.values()].flatMap((series) => series.at))]
    .filter((at) => at >= from)
    .sort((a, b) => a - b);
  const placeOf = new Map(times.map((at, place) => [at, place]));
  const jobs = [...samples]
    .map(([id, series]) => ({ id, ...spread(series, placeOf) }))
    .filter((job) => job.isSeen);
  return { from, to, times, jobs };
}

function spread({ at, cpu, memory }, placeOf) {
  const found = {
    cpu: new Float64Array(placeOf.size).fill(NaN),
    memory: new Float64Array(placeOf.size).fill(NaN),
    isSeen: false,
  };
  at.forEach((each, index) => {
    const place = placeOf.get(each);
    if (place === undefined) return;
    found.isSeen = true;
    found.cpu[place] = cpu[index] ?? NaN;
    found.memory[place] = memory[index] ?? NaN;
  });
  return found;
}

export const peak = (values) => values.reduce((most, value) => (value > most ? value : most), 0);

export function now(values) {
  const value = values[values.length - 1];
  return Number.isNaN(value) || value === undefined ? null : value;
}

// The sum of what is known at each time; NaN where nothing is.
export function sum(all, length) {
  const total = new Float64Array(length).fill(NaN);
  for (const values of all) {
    for (let at = 0; at < length; at += 1) {
      if (!Number.isNaN(values[at])) total[at] = (Number.isNaN(total[at]) ? 0 : total[at]) + values[at];
    }
  }
  return total;
}

// Gives the jobs that use most a colour each, and lets them keep it while they are among those.
export class Slots {
  constructor() {
    this.of = new Map(); // id to its number, from 0
  }

  take(jobs) {
    const all = {
      cpu: peak(jobs.map((job) => peak(job.cpu))) || 1,
      memory: peak(jobs.map((job) => peak(job.memory))) || 1,
    };
    const weight = new Map(
      jobs.map((job) => [job.id, Math.max(peak(job.cpu) / all.cpu, peak(job.memory) / all.memory)]),
    );
    const most = [...jobs]
      .sort((a, b) => weight.get(b.id) - weight.get(a.id) || (a.id < b.id ? -1 : 1))
      .slice(0, SLOTS);
    const ids = new Set(most.map((job) => job.id));
    for (const id of this.of.keys()) if (!ids.has(id)) this.of.delete(id);
    const taken = new Set(this.of.values());
    const free = [...Array(SLOTS).keys()].filter((slot) => !taken.has(slot));
    for (const { id } of most) if (!this.of.has(id)) this.of.set(id, free.shift());
    return most.sort((a, b) => this.of.get(a.id) - this.of.get(b.id));
  }
}

// The lines of one chart: a job each for those that use most, and one for all others together.
export function lines(jobs, most, slots, what, length, nameOf) {
  const isMost = new Set(most.map((job) => job.id));
  const others = jobs.filter((job) => !isMost.has(job.id));
  const found = most.map((job) => ({
    id: job.id,
    name: nameOf(job.id),
    colour: `--series-${slots.of.get(job.id) + 1}`,
    values: job[what],
  }));
  if (others.length) {
    found.push({
      id: REST,
      name: others.length === 1 ? nameOf(others[0].id) : `${others.length} others`,
      colour: "--series-rest",
      values: sum(
        others.map((job) => job[what]),
        length,
      ),
    });
  }
  return found;
}

// How many jobs ran, and how many were queued, at each moment of a span: steps from the rows themselves.
export function counted(rows, from, to) {
  const changes = new Map();
  const change = (at, what, by) => {
    const place = Math.max(from, at);
    if (place > to) return;
    if (!changes.has(place)) changes.set(place, { running: 0, queued: 0 });
    changes.get(place)[what] += by;
  };
  for (const row of rows) {
    if (row.group === "ended" && !(row.ended >= from)) continue;
    const began = row.started ?? row.ended;
    if (!(began - row.created < QUEUED_S)) {
      change(row.created, "queued", 1);
      if (began) change(began, "queued", -1);
    }
    if (row.started) change(row.started, "running", 1);
    if (row.started && row.ended) change(row.ended, "running", -1);
  }
  return steps(changes, from, to);
}

function steps(changes, from, to) {
  const times = [from];
  const running = [0];
  const queued = [0];
  for (const at of [...changes.keys()].sort((a, b) => a - b)) {
    times.push(at);
    running.push(running.at(-1) + changes.get(at).running);
    queued.push(queued.at(-1) + changes.get(at).queued);
  }
  if (times[1] === from) for (const list of [times, running, queued]) list.shift();
  times.push(to);
  running.push(running.at(-1));
  queued.push(queued.at(-1));
  return { times, running, queued };
}
