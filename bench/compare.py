"""Arguments, order, exit status."""

import argparse
import os
import platform
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import against_limit, against_reference, beyond_reference, environments, processes
from bench.client import BenchError
from bench.lab import OURS, REFERENCE, Lab, Side
from bench.report import Result, markdown, merged

MEASURES: dict[str, Callable[[Lab], Result]] = {
    measure.__name__: measure
    for measure in [
        against_reference.cold_start,
        against_reference.execute_command,
        against_reference.get_job_status,
        against_reference.tail_job_output,
        against_reference.list_jobs,
        against_reference.interact_with_job,
        against_reference.exit_to_visible,
        against_reference.kill_job,
        beyond_reference.wait_for_job,
        beyond_reference.screen,
        against_limit.output,
        against_limit.memory,
    ]
}
DESCRIPTION = """\
Measure bgjob and the reference server (PyPI mcp-background-job 0.1.2) side by side: both as real MCP
servers on stdio, asked by the same client, in turns. Prints medians, p95, the ratio ours / reference, and
whether the goal is reached. Linux only; about 6 minutes (--quick: 2). The environments of both servers are
installed on first use under bench/."""


def main() -> int:
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    processes.become_subreaper()
    processes.allow_many_files()
    machine = _machine()
    try:
        sides, facts = _sides(arguments)
        result, failures = _measure(arguments, sides)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        processes.end_all()
    notes = [*result.notes, *(f"**failed**: {failure}" for failure in failures)]
    table = markdown(result.rows, notes, [*facts, machine])
    print(table, end="")
    if arguments.markdown:
        old = arguments.markdown.read_text() if arguments.markdown.exists() else ""
        arguments.markdown.write_text(merged(old, table))
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description=DESCRIPTION,
        epilog="measures:\n" + "\n".join(f"  {name:18} {one.__doc__}" for name, one in MEASURES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: a look, not a result")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=MEASURES, help="only these measures")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the table into this page, between marks"
    )
    parser.add_argument(
        "--reference-python",
        metavar="PYTHON",
        help="Python >= 3.12 for both servers; default: found on the PATH",
    )
    parser.add_argument(
        "--reinstall", action="store_true", help="make the environments anew, as they install today"
    )
    parser.add_argument(
        "--sides", nargs="+", choices=[REFERENCE, OURS], default=[REFERENCE, OURS], help="default: both"
    )
    parser.add_argument(
        "--ours", metavar="COMMAND", help="a server to measure as ours instead of installing the project"
    )
    return parser


def _sides(arguments: argparse.Namespace) -> tuple[list[Side], list[str]]:
    """The servers to measure, and what to say of them."""
    python = environments.reference_python(arguments.reference_python)
    sides, facts = [], [f"Python of both servers: {environments.python_version(python)}"]
    if REFERENCE in arguments.sides:
        its = environments.reference_environment(python, reinstall=arguments.reinstall)
        sides.append(Side(REFERENCE, [str(its), "-m", "mcp_background_job"]))
        facts.append(f"reference: {environments.packages(its)}")
    if OURS in arguments.sides and arguments.ours:
        sides.append(Side(OURS, shlex.split(arguments.ours)))
        facts.append("ours: a server named by --ours")
    elif OURS in arguments.sides:
        its = environments.our_environment(python, reinstall=arguments.reinstall)
        sides.append(Side(OURS, [str(its), "-m", "bgjob", "mcp"], {"limit": 1000}))
        facts.append(f"ours: {environments.packages(its)}")
    return sides, facts


def _measure(arguments: argparse.Namespace, sides: list[Side]) -> tuple[Result, list[str]]:
    """All rows and notes, and what failed: one failure does not take the other measures with it."""
    total, failures = Result([], []), []
    with tempfile.TemporaryDirectory(prefix="bgjob-bench-") as root:
        lab = Lab(Path(root), sides, quick=arguments.quick)
        for name in arguments.only or MEASURES:
            began = time.monotonic()
            print(f"bench: {name} …", end=" ", file=sys.stderr, flush=True)
            try:
                result = MEASURES[name](lab)
                total.rows.extend(result.rows)
                total.notes.extend(result.notes)
            except BenchError as error:
                failures.append(f"{name}: {error}")
                print(error, end=" ", file=sys.stderr)
            finally:
                processes.end_all()
            print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return total, failures


def _machine() -> str:
    """Before we load it ourselves."""
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load > cpus / 4:
        print(f"bench: the machine is busy (load {load:.1f}): trust ratios, not times", file=sys.stderr)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return (
        f"{date}, Linux {platform.release()} {platform.machine()}, {cpus} CPUs, load {load:.1f} at the start"
    )


if __name__ == "__main__":
    sys.exit(main())
