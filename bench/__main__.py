"""Arguments, order, exit status. Started by bench/run, load, agent and remote: `python -m bench run`."""

import argparse
import os
import platform
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import (
    attach,
    checkouts,
    command_line,
    crowd,
    environments,
    floods,
    limits,
    live_view,
    peers,
    processes,
    scale,
    soak,
    targets,
    telling,
    tools,
)
from bench import tasks_output as jobs
from bench import tasks_terminal as prompts
from bench.lab import OURS, BenchError, Lab, Side
from bench.report import Result, exit_status, markdown, merged, unreached
from bench.tasks import sums, tool_list

Measure = Callable[[Lab], Result]
RUN: list[Measure] = [
    *(
        tools.cold_start,
        checkouts.uncompiled,
        tools.execute_command,
        tools.get_job_status,
        tools.tail_job_output,
        tools.list_jobs,
    ),
    *(tools.interact_with_job, tools.kill_job),
    *(limits.wait, limits.screen, limits.output, limits.idle),
    *(peers.queue, peers.search),
]
LOAD: list[Measure] = [
    *(crowd.crowd, soak.soak, floods.flood, floods.watches),
    *(checkouts.start, limits.idle, telling.hook, telling.task),
    *(command_line.command_line, attach.attach, live_view.top),
]
AGENT: list[Measure] = [
    *(jobs.dev_server, jobs.pytest, jobs.search, jobs.build, jobs.daemon),
    *(jobs.pip, jobs.npm, jobs.apt, jobs.tqdm, jobs.pull),
    *(prompts.python_repl, prompts.node_repl, prompts.bash_repl, prompts.sqlite_repl),
    *(prompts.question, prompts.interrupt, prompts.create_vite, prompts.vim, prompts.whiptail, jobs.queue),
    tool_list,
]
REMOTE: list[Measure] = [targets.targets, scale.scale]
ABOUT = {
    "run": (
        RUN,
        "Measure bgjob against the reference server (PyPI mcp-background-job 0.1.2), task-spooler and grep.",
    ),
    "load": (LOAD, "Measure bgjob under load, or (start, idle) against another checkout of it."),
    "agent": (
        AGENT,
        "Measure what tasks cost a model at bgjob, and at the reference server by asking every 3 seconds.",
    ),
    "remote": (
        REMOTE,
        "Measure jobs of other machines against jobs of this one, plain ssh and srun; and a relay with many machines.",
    ),
}
EARLIER = "e33f440"
"""The last commit whose server ran on the MCP SDK."""
MORE = """\
Servers are real MCP servers on stdio. What is compared takes turns in one run. Prints medians, p95, ratios,
and whether goals are reached. Linux only. Exit status: 0 when every goal is reached, 1 when one is missed or
a measure failed, 3 when there were too few samples to judge."""


def main() -> int:
    command = sys.argv.pop(1)
    measures, about = ABOUT[command]
    by_name = {measure.__name__: measure for measure in measures}
    arguments = _parser(f"bench/{command}", about, by_name).parse_args()
    _prepare()
    machine, total = _machine(), Result()
    try:
        sides, others, facts = _sides(arguments, beside_reference=command in ("run", "agent"))
        with tempfile.TemporaryDirectory(prefix="bgjob-bench-") as root:
            lab = Lab(Path(root), sides, arguments.quick, arguments.minutes, others, arguments.earlier)
            for name in arguments.names or by_name:
                total.add(_measured(by_name[name], lab))
            total.rows.extend(sums(total.tasks))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        processes.end_all()
    for goal in unreached(total):
        print(f"bench: {goal}", file=sys.stderr)
    _tell(f"bench/{command}", markdown(total, [*facts, machine]), arguments.markdown)
    return exit_status(total)


def _parser(command: str, about: str, measures: Mapping[str, Measure]) -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:18} {measure.__doc__}" for name, measure in measures.items())
    parser = argparse.ArgumentParser(
        prog=command,
        description=f"{about}\n{MORE}\n\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*measures, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="few rounds: a look, not a result")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the table there, between marks"
    )
    parser.add_argument(
        "--ours", metavar="COMMAND", help="a server to measure as ours, alone; load: default this checkout"
    )
    parser.add_argument(
        "--against", type=Path, metavar="PATH", help="load: another checkout, run by this Python"
    )
    parser.add_argument(
        "--minutes", type=float, default=10, metavar="X", help="load: how long soak takes; default 10"
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PYTHON",
        help="run, agent: Python >= 3.12 for both servers; run: any further one, for the memory of ours",
    )
    parser.add_argument(
        "--earlier", default=EARLIER, metavar="COMMIT", help=f"run: for uncompiled; default {EARLIER}"
    )
    parser.add_argument("--reinstall", action="store_true", help="run, agent: make the environments anew")
    return parser


def _prepare() -> None:
    """Servers inherit our environment and our limits; settings of ours are not theirs."""
    for name in list(os.environ):
        if name.startswith(("MCP_BG_", "BGJOB_", "PYTHON")):
            del os.environ[name]
    os.environ["XDG_CONFIG_HOME"] = os.devnull  # nor the config file of the person who measures
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    processes.become_subreaper()
    processes.allow_many_files()


def _sides(
    arguments: argparse.Namespace, *, beside_reference: bool
) -> tuple[Sequence[Side], Sequence[Side], list[str]]:
    """What is compared, ours last; ours on further Pythons; and what to say of it."""
    if beside_reference and not arguments.ours:
        return environments.sides(arguments.python, reinstall=arguments.reinstall)
    own = [sys.executable, "-m", "bgjob", "mcp"]
    ours = Side(OURS, shlex.split(arguments.ours) if arguments.ours else own, list_all={"limit": 1000})
    if not arguments.against:
        return [ours], [], []
    source = arguments.against.resolve() / "src"
    if not (source / "bgjob").is_dir():
        raise BenchError(f"{source}/bgjob is not there: --against wants a checkout of bgjob")
    return [Side(arguments.against.name, own, {"PYTHONPATH": str(source)}), ours], [], []


def _measured(measure: Measure, lab: Lab) -> Result:
    """One failure does not take the other measures with it."""
    began = time.monotonic()
    print(f"bench: {measure.__name__} …", end=" ", file=sys.stderr, flush=True)
    try:
        return measure(lab)
    except BenchError as error:
        return Result(failures=[f"{measure.__name__}: {error}"])
    finally:
        processes.end_all()
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _machine() -> str:
    """Before we load it ourselves."""
    date, load = time.strftime("%Y-%m-%d", time.gmtime()), os.getloadavg()[0]
    system = f"Linux {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    return f"{date}, {system}, {os.cpu_count()} CPUs, load {load:.1f} at the start"


def _tell(command: str, table: str, page: Path | None) -> None:
    print(table, end="")
    if page:
        page.write_text(merged(page.read_text() if page.exists() else "", table, command))


if __name__ == "__main__":
    sys.exit(main())
