"""/metrics: what Prometheus is told, in its text format 0.0.4."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from bgjob import __version__
from bgjob.api import Jobs
from bgjob.mcp.server import SERVER
from bgjob.protocol.jsonrpc import Message
from bgjob.protocol.methods import LIFECYCLE

KNOWN_METHODS = frozenset({*LIFECYCLE, *SERVER.methods})
BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]


def method_of(message: object) -> str:
    """One of those that there are: a client cannot make up labels."""
    method = message.get("method") if isinstance(message, dict) else None
    return method if method in KNOWN_METHODS else "other"


def outcome_of(answer: Message) -> str:
    if "error" in answer:
        return "error"
    return "tool_error" if answer["result"].get("isError") else "ok"


class Meters:
    """Counted by this process. Only the event loop changes and reads them."""

    def __init__(self) -> None:
        self.streams_open = 0
        self._requests: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[int] = Counter()
        self._took: Counter[int] = Counter()
        self._took_s = 0.0

    def refused(self, status: int) -> None:
        self._refused[status] += 1

    def answered(self, method: str, outcome: str, began_at: float) -> None:
        """`began_at`: by the monotonic clock."""
        took_s = time.monotonic() - began_at
        self._requests[method, outcome] += 1
        self._took[bisect_left(BUCKETS_S, took_s)] += 1
        self._took_s += took_s

    def lines(self) -> Iterator[str]:
        requests = [
            ({"method": method, "outcome": outcome}, count)
            for (method, outcome), count in sorted(self._requests.items())
        ]
        refused = [({"status": status}, count) for status, count in sorted(self._refused.items())]
        yield from _metric("bgjob_requests_total", "counter", "MCP requests by how they ended.", requests)
        yield from _metric(
            "bgjob_http_refused_total", "counter", "HTTP requests refused, by status.", refused
        )
        yield from self._durations()
        yield from _metric(
            "bgjob_streams_open", "gauge", "Answers that are being streamed.", [({}, self.streams_open)]
        )

    def _durations(self) -> Iterator[str]:
        name, limits = "bgjob_request_duration_seconds", [*map(str, BUCKETS_S), "+Inf"]
        counts = list(accumulate(self._took[place] for place in range(len(limits))))
        yield from _metric(name, "histogram", "How long MCP requests took.", [])
        for limit, count in zip(limits, counts, strict=True):
            yield _sample(f"{name}_bucket", {"le": limit}, count)
        yield _sample(f"{name}_sum", {}, f"{self._took_s:.6f}")
        yield _sample(f"{name}_count", {}, counts[-1])


def store_lines(jobs: Jobs) -> Iterator[str]:
    """Of all jobs on disk: reads much, and may take long."""
    totals = jobs.totals()
    by_status = [({"status": status}, count) for status, count in sorted(totals.by_status.items())]
    yield from _metric("bgjob_build_info", "gauge", "The version.", [({"version": __version__}, 1)])
    yield from _metric("bgjob_jobs", "gauge", "Jobs in the store, by status.", by_status)
    yield from _metric(
        "bgjob_output_bytes", "gauge", "What the jobs in the store have printed.", [({}, totals.output_bytes)]
    )


def _metric(name: str, kind: str, told: str, samples: Iterable[tuple[Labels, object]]) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield _sample(name, labels, value)


def _sample(name: str, labels: Labels, value: object) -> str:
    inside = ",".join(f'{label}="{word}"' for label, word in labels.items())
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"
