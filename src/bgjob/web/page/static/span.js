// The span of time that is looked at: a fixed one, or a live one, which ends now and moves on.

export const PRESETS = [
  { name: "10 min", last: 600, words: "The last ten minutes" },
  { name: "Hour", last: 3600, words: "The last hour" },
  { name: "12 h", last: 43200, words: "The last twelve hours" },
  { name: "Day", last: 86400, words: "The last day" },
  { name: "Week", last: 604800, words: "The last week" },
  { name: "All", last: Infinity, words: "All that is kept" },
];
const LEAST_S = 1;
const MOST_S = 20 * 365 * 86400;
// Of a live span, so much lies behind now: what happens now is not at the very edge.
const AHEAD = 0.03;

export class Span {
  // `last`: the seconds of a live span, Infinity for all jobs; null: from `from` to `to`.
  constructor({ last = null, from = 0, to = 0 }) {
    Object.assign(this, { last, from, to });
  }

  static inAddress({ last, from, to }) {
    const numbers = [from, to].map(Number);
    if (last === "all") return new Span({ last: Infinity });
    if (Number(last) > 0) return new Span({ last: bounded(Number(last)) });
    if (from && to && numbers.every(Number.isFinite) && numbers[0] < numbers[1]) return fixed(...numbers);
    return null;
  }

  get isLive() {
    return this.last !== null;
  }

  // What its address has; all other parts of it are undefined.
  address() {
    if (this.last === Infinity) return { last: "all" };
    if (this.isLive) return { last: String(Math.round(this.last)) };
    const digits = this.to - this.from > 600 ? 0 : 3;
    return { from: this.from.toFixed(digits), to: this.to.toFixed(digits) };
  }

  // [from, to] at this moment; `oldest`: when the first job came.
  at(now, oldest) {
    if (!this.isLive) return [this.from, this.to];
    const seconds = this.last === Infinity ? Math.max(60, (now - oldest) * 1.02) : this.last;
    return [now - seconds, now + seconds * AHEAD];
  }
}

function fixed(from, to) {
  const seconds = bounded(to - from);
  const middle = (from + to) / 2;
  return new Span({ from: middle - seconds / 2, to: middle + seconds / 2 });
}

const bounded = (seconds) => Math.min(MOST_S, Math.max(LEAST_S, seconds));

// From here to there; if that reaches now, it is live.
export function between(from, to, now) {
  return to >= now ? new Span({ last: bounded(now - from) }) : fixed(from, to);
}

// `factor` < 1 looks closer; what is at `at` stays where it is.
export function zoomed([from, to], factor, at, now) {
  return between(at - (at - from) * factor, at + (to - at) * factor, now);
}

// A span that is moved to now is live again, as long as it was.
export function moved([from, to], seconds, now) {
  if (to + seconds < now) return fixed(from + seconds, to + seconds);
  return new Span({ last: bounded((to - from) / (1 + AHEAD)) });
}
