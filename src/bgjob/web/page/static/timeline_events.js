// What happened in a span, as far as the server has told it: the marks of the timeline.

import { MARKS } from "./lanes.js";
import { get } from "./wire.js";

const TAIL_EVERY_MS = 2000, TAIL_SOON_MS = 250;
// What is written later than it happened is found all the same.
const OVERLAP_S = 10, AHEAD_S = 60;

export class Events {
  // `changed` is called when there are others, `failed` with what went wrong.
  constructor(changed, failed) {
    Object.assign(this, { changed, failed });
    this.from = this.to = 0; // what is known
    this.byJob = new Map();
    this.all = [];
    this.hasMore = false; // the server told only the newest
    this.asking = null;
    this.tailTimer = 0;
    this.tailAt = 0;
  }

  close() {
    this.asking?.abort();
    clearTimeout(this.tailTimer);
    this.changed = this.failed = () => {};
  }

  // All of a span. While it is known already nothing is asked; else it is asked for with a margin on both sides.
  cover(from, to, now) {
    if (this.asking || (from >= this.from && Math.min(to, now) <= this.to)) return;
    const margin = (to - from) / 2;
    this.ask(Math.max(0, from - margin), to + margin, now, (events) => (this.all = events));
  }

  // What is new since the last time: soon if something was told to have changed, else after a while.
  tail(now, isSoon) {
    const wait = isSoon ? TAIL_SOON_MS : TAIL_EVERY_MS, at = performance.now() + wait;
    if (this.tailTimer && this.tailAt <= at) return;
    clearTimeout(this.tailTimer);
    this.tailAt = at;
    this.tailTimer = setTimeout(() => {
      this.tailTimer = 0;
      if (this.asking || !this.to) return this.tail(now, true);
      const since = this.to - OVERLAP_S, before = (event) => event.at < since;
      this.ask(since, 0, Date.now() / 1000, (events) => (this.all = [...this.all.filter(before), ...events]), this.from);
    }, wait);
  }

  async ask(from, to, now, take, knownFrom = from) {
    const asking = (this.asking = new AbortController());
    try {
      const { events, more } = await get("/api/events", { from, to: Math.max(to, now + AHEAD_S) }, { signal: asking.signal });
      take(events.filter(([, kind]) => MARKS[kind]).map(([at, kind, job, words]) => ({ at, kind, job, words })));
      this.from = knownFrom;
      this.to = to && to < now ? to : now;
      this.hasMore = more || (knownFrom !== from && this.hasMore);
      this.group();
      this.changed();
    } catch (problem) {
      if (!asking.signal.aborted) this.failed(problem);
    } finally {
      if (this.asking === asking) this.asking = null;
    }
  }

  group() {
    this.byJob = new Map();
    for (const event of this.all) {
      if (!this.byJob.has(event.job)) this.byJob.set(event.job, []);
      this.byJob.get(event.job).push(event);
    }
  }
}
