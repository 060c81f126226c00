"""A day of a person with agents, as jobs: what waits, runs, is queued, and how others ended.

The programs are small scripts under the names of those that people use.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bgjob.api import Jobs
from bgjob.store.store import Store
from tests.support.stores import new_spec, write_outcome

CLAUDE = {"client": "claude-code", "session": "7f3a90c1-52"}
CODEX = {"client": "codex", "session": "0198c2ee-41"}
PERSON = {"client": "bgjob", "tty": "/dev/pts/3"}

NPM = """
import http.server, socketserver
server = socketserver.TCPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
print('  VITE v7.1.4  ready in 312 ms\\n', flush=True)
print(f'  \\033[32m➜\\033[0m  Local:   \\033[36mhttp://127.0.0.1:{server.server_address[1]}/\\033[0m', flush=True)
server.serve_forever()
"""
TRAIN = """
import math, time
data = bytearray(30_000_000)
for step in range(1, 1_000_000):
    data.extend(bytes(40_000 if step % 40 else 0))
    if step % 400 == 0:
        del data[20_000_000:]
    loss = 2.31 / (1 + step / 300) + 0.02 * math.sin(step)
    if step % 5 == 0:
        print(f'step {step:5d}  loss \\033[1m{loss:.4f}\\033[0m  lr \\033[36m3.0e-04\\033[0m', flush=True)
    if step % 90 == 0:
        print(f'\\033[33mwarning\\033[0m gradient norm {3 + loss:.1f} was clipped', flush=True)
    until = time.monotonic() + 0.03 * (1.1 + math.sin(step / 40))
    while time.monotonic() < until:
        pass
    time.sleep(0.06)
"""
PYTEST = """
import signal
names = ['total', 'discount', 'refund', 'currency', 'shipping', 'tax', 'stock', 'payment', 'invoice', 'address']
print('\\033[1m' + ' test session starts '.center(78, '=') + '\\033[0m')
print('platform linux -- Python 3.13.1, pytest-9.0.1\\nrootdir: shop/api\\ncollected 120 items\\n')
for number in range(34):
    word = '\\033[31mFAILED\\033[0m' if number == 21 else '\\033[32mPASSED\\033[0m'
    test = f'tests/test_orders.py::test_{names[number % 10]}_{number // 10}'
    print(f'{test:<58}{word} \\033[32m[{(number + 1) * 100 // 120:3d}%]\\033[0m', flush=True)
signal.pause()
"""
MIGRATE = """\
printf 'Applying 3 migrations to production:\\n  0041_add_index\\n  0042_split_names\\n  0043_drop_legacy\\n'
printf 'Continue? [y/N] '; read answer; echo "got $answer"
"""
GIT = """\
stty -echo; printf "Password for 'https://anna@git.example': "; read secret
"""


def past_job(
    store: Store, command: str, ended_ago_s: float, took_s: float, outcome: Mapping[str, Any], **spec: Any
) -> str:
    """A job that ended so long ago."""
    ended_at = time.time() - ended_ago_s
    created = new_spec(ended_at - took_s, command)
    new = store.create(replace(created, **spec))
    write_outcome(Path(new.directory), ended_at=ended_at, duration_s=took_s, **outcome)
    os.close(new.lock)
    return created.id


def past_jobs(store: Store, api: str, web: str) -> None:
    failed = {"exit_code": 1}
    for command, ago, took, outcome, more in (
        ("npm run build", 190, 24.1, {}, {"name": "build", "cwd": web, "by": CLAUDE}),
        ("npm run build", 350, 21.7, failed, {"name": "build", "cwd": web, "by": CLAUDE}),
        ("npm ci", 410, 38.2, {}, {"name": "install", "cwd": web, "by": CLAUDE}),
        ("mypy src", 1210, 12.4, {"exit_code": 2}, {"name": "types", "cwd": api, "by": CODEX}),
        ("ruff check --fix src tests", 1260, 0.9, {}, {"name": "lint", "cwd": api, "by": CODEX}),
        (
            "python etl/nightly.py --since yesterday --into warehouse",
            21_000,
            5400,
            {"cause": "timed_out"},
            {"name": "nightly", "cwd": api, "by": PERSON},
        ),
        (
            "python -m bench.memory --rows 50000000",
            30_400,
            71.0,
            {"cause": "over_limit", "limit": "memory"},
            {"cwd": api, "by": CODEX},
        ),
        (
            "ffmpeg -i talk.mkv -c:v libx264 -crf 20 talk.mp4",
            14_000,
            902.0,
            {"cause": "killed"},
            {"name": "encode", "cwd": api, "by": PERSON},
        ),
        ("docker compose pull", 90_000, 140.0, {}, {"cwd": web, "by": PERSON}),
        ("cargo build --release", 260_000, 311.0, {}, {"name": "release", "cwd": api, "by": CODEX}),
    ):
        past_job(store, command, ago, took, outcome, **more)
    for command, ended_ago_s, took_s, outcome, more in _rounds(api, web):
        past_job(store, command, ended_ago_s, took_s, outcome, **more)


def _rounds(api: str, web: str) -> Iterator[tuple[str, float, float, dict[str, Any], dict[str, Any]]]:
    """What agents did again and again in the last hours."""
    for number in range(11):
        ago = 1_500.0 + 3_300 * number
        for command, after, took, is_bad, more in (
            ("pytest -x tests/unit", 0, 620 + 90 * (number % 4), number in (2, 6), ("unit", api, CODEX)),
            ("ruff check src tests", 900, 1.1, False, ("lint", api, CODEX)),
            ("npm run build", 1400, 400 + 30 * number, number == 4, ("build", web, CLAUDE)),
            ("npx playwright test", 1900, 1500 - 60 * number, number in (3, 8), ("browser", web, CLAUDE)),
        ):
            name, cwd, by = more
            yield command, ago + after, took, {"exit_code": int(is_bad)}, {"name": name, "cwd": cwd, "by": by}


def stage(jobs: Jobs, root: Path) -> dict[str, str]:
    """The ids of the jobs that run or wait, by name."""
    api, web, programs = root / "shop" / "api", root / "shop" / "web", root / "bin"
    for directory in (api, web, programs):
        directory.mkdir(parents=True)
    for name, text in {"npm": NPM, "pytest": PYTEST}.items():
        _write_program(programs / name, f"#!{sys.executable}\n{text}")
    _write_program(programs / "git", f"#!/bin/sh\n{GIT}")
    (programs / "python").symlink_to(sys.executable)
    (api / "train.py").write_text(TRAIN)
    _write_program(api / "migrate.sh", f"#!/bin/sh\n{MIGRATE}")
    past_jobs(Store(str(jobs.home)), str(api), str(web))
    env = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def start(command: str, name: str, cwd: Path, by: Mapping[str, str], **options: Any) -> str:
        return str(jobs.execute(command, name=name, cwd=str(cwd), by=by, env=env, **options).id)

    ids = {
        "dev": start("npm run dev", "dev", web, CLAUDE),
        "train": start(
            "python train.py --epochs 40 --batch 256", "train", api, CODEX, options={"memory": "512MB"}
        ),
        "tests": start("pytest -v tests", "tests", api, CLAUDE, pty=True),
        "push": start("git push origin main", "push", web, PERSON, pty=True),
        "migrate": start("./migrate.sh production", "migrate", api, CLAUDE, pty=True),
    }
    return ids | {"deploy": start("./deploy.sh --to production", "deploy", web, CLAUDE, after=[ids["tests"]])}


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
