"""What the load has found: what it was, the figures, the goals they are held to, the tables."""

from collections import Counter
from dataclasses import dataclass, field

from bench.agents import Tally
from bench.replicas import KINDS
from bench.report import Samples
from bench.stage import print_errors
from bench.tables import ENOUGH_SAMPLES, digits, exit_status, markdown_table, p50_p95, p95, verdict

MOST_RATIO, MOST_LIST_MS = 3.0, 100.0
RUNNING, ENDED = "get_job_status, running", "get_job_status, ended"


@dataclass(frozen=True)
class Plan:
    jobs: int
    clients: int
    ended: int
    rounds: int
    seconds: float
    full_speed_seconds: float
    calls_per_s: float
    seed: int


@dataclass(frozen=True)
class Figure:
    """A line of the second table; without a goal it only informs."""

    title: str
    value: str
    goal: str = ""
    reached: bool | None = True


@dataclass
class Findings:
    idle: Tally = field(default_factory=Tally)
    load: Tally = field(default_factory=Tally)
    full: Tally = field(default_factory=Tally)
    at_once: Tally = field(default_factory=Tally)
    """Starting all jobs and killing them all."""
    watched_load: Tally = field(default_factory=Tally)
    watched_full: Tally = field(default_factory=Tally)
    starts_s: Samples = field(default_factory=list)
    kills_s: Samples = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    files_left: int = 0
    load_s: float = 0.0
    full_s: float = 0.0

    @property
    def errors(self) -> list[str]:
        tallies = [self.idle, self.load, self.full, self.at_once, self.watched_load, self.watched_full]
        return [error for tally in tallies for error in tally.errors]


def latencies(found: Findings) -> list[list[str]]:
    """Rows of the first table: milliseconds, p50 / p95."""
    idle, load, full = found.idle.took_ms, found.load.took_ms, found.full.took_ms
    watched, rushed = found.watched_load.took_ms, found.watched_full.took_ms
    rows = [_status_row(name, idle[name], watched[name], rushed[name]) for name in (RUNNING, ENDED)]
    listed = load["list_jobs"] + watched["list_jobs"]
    rows.append(
        [
            "list_jobs, a page",
            *map(p50_p95, [idle["list_jobs"], listed]),
            ratio(listed, idle["list_jobs"]),
            p50_p95(full["list_jobs"] + rushed["list_jobs"]),
            f"p95 ≤ {MOST_LIST_MS:g} ms",
            verdict(p95(listed) <= MOST_LIST_MS if _enough(listed) else None),
        ]
    )
    others = sorted(name for name in load if not name.startswith("(") and name != "list_jobs")
    return rows + [[name, "—", p50_p95(load[name]), "—", p50_p95(full[name]), "", ""] for name in others]


def _status_row(name: str, idle: Samples, load: Samples, full: Samples) -> list[str]:
    enough = _enough(idle) and _enough(load)
    reached = p95(load) <= MOST_RATIO * p95(idle) if enough else None
    figures = [p50_p95(idle), p50_p95(load), ratio(load, idle), p50_p95(full)]
    return [name, *figures, f"p95 ≤ {MOST_RATIO:g} x idle", verdict(reached)]


def _enough(samples: Samples) -> bool:
    return len(samples) >= ENOUGH_SAMPLES


def ratio(load: Samples, idle: Samples) -> str:
    return digits(p95(load) / p95(idle)) if load and idle else "—"


def figures(plan: Plan, found: Findings) -> list[Figure]:
    left = ", ".join(f"{number} {name}" for name, number in found.left.items())
    return [
        Figure("calls that failed or answered wrongly", str(len(found.errors)), "0", not found.errors),
        Figure(
            f"calls under load: {plan.clients} clients, at most {plan.calls_per_s:g}/s each",
            f"{found.load.calls / found.load_s:.0f}/s" if found.load_s else "—",
        ),
        Figure(
            f"calls at full speed: {plan.clients} clients",
            f"{found.full.calls / found.full_s:.0f}/s" if found.full_s else "—",
        ),
        Figure(f"start of {plan.jobs} jobs by {plan.clients} clients", seconds(found.starts_s)),
        Figure(f"end of {plan.jobs} jobs by kill_job", seconds(found.kills_s)),
        Figure("processes left after that, and after the servers' end", left or "0", "0", not found.left),
        Figure("files left open by servers", str(found.files_left), "0", found.files_left == 0),
        *found.figures,
    ]


def seconds(samples: Samples) -> str:
    return ", ".join(f"{sample:.1f}" for sample in samples) + " s"


def report(plan: Plan, found: Findings, machine: str) -> int:
    """Prints it; the exit status."""
    rows = latencies(found)
    others = figures(plan, found)
    print(f"- {machine}")
    print(
        f"- {plan.jobs} running jobs, {plan.clients} clients with a server each and a watcher, "
        f"{plan.ended} ended jobs (copies of {len(KINDS)} real ones under fresh ids); "
        f"{plan.rounds} rounds of {plan.seconds:g} s idle and {plan.seconds:g} s load\n"
    )
    header = ["call, ms p50 / p95", "idle", "load", "load / idle, p95", "full speed", "goal", "reached"]
    print(markdown_table(header, rows))
    lines = [[one.title, one.value, one.goal, verdict(one.reached) if one.goal else ""] for one in others]
    print(markdown_table(["figure", "value", "goal", "reached"], lines))
    print_errors(found.errors)
    return exit_status(row[-1] for row in [*rows, *lines])
