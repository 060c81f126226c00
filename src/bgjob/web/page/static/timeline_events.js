// What happened in a span, as far as the server has told it: the marks of the timeline.

import { MARKS } from "./lanes.js";
import { get } from "./wire.js";

const TAIL_EVERY_MS = 3000;
const TAIL_SOON_MS = 500;
const AGAIN_MS = 2000;

// What is written later than it happened is found all the same.
const OVERLAP_S = 10;

const AHEAD_S = 60;

export class Events {
  // `changed` is called when there are others, `failed` with what went wrong.
  constructor(changed, failed) {
    Object.assign(this, { changed, failed });
    this.from = this.to = 0; // what is known
    this.reachedNow = false; // what is known reached up to then: only newer events are missing
    this.all = [];
    this.byJob = new Map();
    this.hasMore = false; // the server told only the newest
    this.asking = null;
    this.tailTimer = this.tailAt = 0;
    this.againTimer = 0;
  }

  close() {
    this.asking?.abort();
    clearTimeout(this.tailTimer);
    clearTimeout(this.againTimer);
  }

  // All of a span. What is known already is not asked for again; else there is a margin on both sides.
  cover(from, to, isLive) {
    const now = Date.now() / 1000;
    if (this.asking || this.againTimer) return;
    if (from >= this.from && Math.min(to, now) <= this.to) return;
    if (from >= this.from && this.reachedNow) return isLive || this.tail(true);
    const margin = (to - from) / 2;
    this.ask({ from: Math.max(0, from - margin), to: to + margin, now }, (events) => (this.all = events));
  }

  // What is new since the last time: soon if something is known to have happened, else after a while.
  tail(isSoon) {
    const wait = isSoon ? TAIL_SOON_MS : TAIL_EVERY_MS;
    const at = performance.now() + wait;
    if (!this.reachedNow || (this.tailTimer && this.tailAt <= at)) return;
    clearTimeout(this.tailTimer);
    this.tailAt = at;
    this.tailTimer = setTimeout(() => this.askForTail(), wait);
  }

  askForTail() {
    this.tailTimer = 0;
    if (this.asking) return this.tail(true);
    const now = Date.now() / 1000;
    const since = this.to - OVERLAP_S;
    const take = (events) => (this.all = [...this.all.filter((event) => event.at < since), ...events]);
    this.ask({ from: since, to: now, now, knownFrom: this.from }, take);
  }

  async ask({ from, to, now, knownFrom = from }, take) {
    const asking = (this.asking = new AbortController());
    const reachesNow = to >= now;
    const query = { from, to: reachesNow ? now + AHEAD_S : to };
    try {
      const { events, more } = await get("/api/events", query, { signal: asking.signal });
      if (asking.signal.aborted) return;
      take(
        events.filter(([, kind]) => MARKS[kind]).map(([at, kind, job, words]) => ({ at, kind, job, words })),
      );
      Object.assign(this, { from: knownFrom, to: reachesNow ? now : to, reachedNow: reachesNow });
      this.hasMore = more || (knownFrom !== from && this.hasMore);
      this.group();
    } catch (problem) {
      if (asking.signal.aborted) return;
      this.againTimer = setTimeout(() => this.again(), AGAIN_MS);
      if (problem.status) this.failed(problem); // that the server does not answer is told elsewhere
    } finally {
      if (this.asking === asking) this.asking = null;
    }
    if (!this.againTimer) this.changed();
  }

  again() {
    this.againTimer = 0;
    this.changed();
  }

  group() {
    this.byJob = new Map();
    for (const event of this.all) {
      if (!this.byJob.has(event.job)) this.byJob.set(event.job, []);
      this.byJob.get(event.job).push(event);
    }
  }
}
