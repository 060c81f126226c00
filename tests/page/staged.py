"""A day of a person with agents, as jobs: what waits, runs, is queued, and how others ended."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bgjob.api import Jobs
from bgjob.store.store import Store
from tests.support.stores import new_spec, write_outcome

CLAUDE = {"client": "claude-code", "session": "7f3a90c1-52"}
CODEX = {"client": "codex", "session": "0198c2ee-41"}
PERSON = {"client": "bgjob", "tty": "/dev/pts/3"}
DEV_SERVER = """\
import http.server, socketserver
server = socketserver.TCPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
print('VITE v7.1.4  ready in 312 ms\\n', flush=True)
print(f'  Local:   http://127.0.0.1:{server.server_address[1]}/', flush=True)
server.serve_forever()
"""
TRAINING = """\
import time
for step in range(1, 100000):
    print(f'step {step}  loss {2.31 / (1 + step / 900):.4f}  lr 3.0e-04', flush=True)
    sum(number * number for number in range(60000))
    time.sleep(0.05)
"""
TESTS = """\
for n in $(seq 1 40); do
  printf 'tests/api/test_orders.py::test_order_%s \\033[32mPASSED\\033[0m\\n' "$n"; sleep 0.02
done; exec tail -f /dev/null
"""
DEPLOY = """\
printf 'Applying 3 migrations to production:\\n  0041_add_index\\n  0042_split_names\\n  0043_drop_legacy\\n'
printf 'Continue? [y/N] '; read answer; echo "got $answer"
"""
PASSWORD = "stty -echo 2>/dev/null; printf 'Password for anna@registry.example: '; read secret"


def past_job(
    store: Store, command: str, ended_ago_s: float, took_s: float, outcome: dict[str, Any], **spec: Any
) -> str:
    """A job that ended so long ago."""
    ended_at = time.time() - ended_ago_s
    created = new_spec(ended_at - took_s, command)
    new = store.create(replace(created, **spec))
    log = Path(new.directory)
    write_outcome(log, ended_at=ended_at, duration_s=took_s, **outcome)
    os.close(new.lock)
    return created.id


def past_jobs(store: Store, project: str, site: str) -> None:
    fine: dict[str, Any] = {}
    failed = {"exit_code": 1}
    for command, ago, took, outcome, more in (
        ("npm ci", 410, 38.2, fine, {"name": "install", "cwd": site, "by": CLAUDE}),
        ("npm run build", 350, 21.7, failed, {"name": "build", "cwd": site, "by": CLAUDE}),
        ("npm run build", 190, 24.1, fine, {"name": "build", "cwd": site, "by": CLAUDE}),
        ("ruff check --fix src tests", 1260, 0.9, fine, {"name": "lint", "cwd": project, "by": CODEX}),
        ("mypy src", 1210, 12.4, {"exit_code": 2}, {"name": "types", "cwd": project, "by": CODEX}),
        ("pytest -x tests/unit", 3100, 64.5, fine, {"name": "unit", "cwd": project, "by": CODEX}),
        (
            "python etl/nightly.py --since yesterday --into warehouse",
            21_000,
            5400,
            {"cause": "timed_out"},
            {"name": "nightly", "cwd": project, "by": PERSON},
        ),
        (
            "python -m bench.memory --rows 50000000",
            30_400,
            71.0,
            {"cause": "over_limit", "limit": "memory"},
            {"cwd": project, "by": CODEX},
        ),
        (
            "ffmpeg -i talk.mkv -c:v libx264 -crf 20 talk.mp4",
            48_000,
            902.0,
            {"cause": "killed"},
            {"name": "encode", "cwd": project, "by": PERSON},
        ),
        ("docker compose pull", 90_000, 140.0, fine, {"cwd": site, "by": PERSON}),
        ("cargo build --release", 260_000, 311.0, fine, {"name": "release", "cwd": project, "by": CODEX}),
    ):
        past_job(store, command, ago, took, outcome, **more)


def stage(jobs: Jobs, root: Path) -> dict[str, str]:
    """The ids of the jobs that run or wait, by name."""
    project, site = root / "shop" / "api", root / "shop" / "web"
    for directory in (project, site):
        directory.mkdir(parents=True)
        (directory / "README.md").write_text("# Shop\n")
    past_jobs(Store(str(jobs.home)), str(project), str(site))
    python = "python3 -u"
    (root / "vite.py").write_text(DEV_SERVER)
    (root / "train.py").write_text(TRAINING)
    started = {
        "dev": jobs.execute(f"{python} {root}/vite.py", name="dev", cwd=str(site), by=CLAUDE),
        "train": jobs.execute(
            f"{python} {root}/train.py --epochs 40 --batch 256",
            name="train",
            cwd=str(project),
            by=CODEX,
            options={"memory": "2GB"},
        ),
        "tests": jobs.execute(TESTS, name="tests", cwd=str(project), by=CLAUDE, pty=True),
        "migrate": jobs.execute(DEPLOY, name="migrate", cwd=str(project), by=CLAUDE, pty=True),
        "push": jobs.execute(PASSWORD, name="push", cwd=str(site), by=CODEX, pty=True),
    }
    started["deploy"] = jobs.execute(
        "./deploy.sh --to production", name="deploy", cwd=str(site), by=CLAUDE, after=[started["tests"].id]
    )
    return {name: job.id for name, job in started.items()}
