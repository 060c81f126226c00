"""Tasks that wait: servers, tests, builds, progress, daemons, queues."""

import socket
import sys
import textwrap
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from bench.environments import npm_packages, python_packages
from bench.lab import wait_until
from bench.session import Session, WithBgjob, left_in
from bench.tasks import task

TESTS = 2000
FAILING = (317, 711, 1024, 1500, 1999)
PLACE_OF_FIRST = "test_orders_03.py:74: AssertionError"

WORKER = """
import time
for number in range(2000):
    print(f"2026-01-01T12:{number // 60 % 60:02}:{number % 60:02} INFO request {number} done in {number % 90} ms")
    if number == 456:
        print("ERROR request 456 failed: KeyError: 'customer'")
print("ready for requests", flush=True)
time.sleep(1000)
"""
PULL = """
import time
LAYERS = 6
for step in range(100):
    for layer in range(LAYERS):
        share = min(100, max(0, step * 2 - layer * 18))
        bar = ("=" * (share // 2) + ">").ljust(51)
        print(f"\\x1b[2K4f4fb700ef{layer}: Downloading [{bar}] {share:3}%", flush=True)
    time.sleep(0.08)
    print(f"\\x1b[{LAYERS}A", end="")
for layer in range(LAYERS):
    print(f"\\x1b[2K4f4fb700ef{layer}: Pull complete")
"""


@task("npm", "node")
def dev_server(model: Session) -> None:
    """vite: start, ready, an error in its log, restart, ready, end."""
    page, port = vite_project(model.work), free_port()
    model.serve(f"npm run dev -- --port {port}", "Local: ")
    page.write_text('import "./missing.js"\n')
    with suppress(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://localhost:{port}/{page.name}", timeout=30).close()
    model.expect("the error is named", "missing.js" in model.await_line("missing.js"))
    model.serve(f"npm run dev -- --port {port}", "Local: ")
    end_all_of(model)


@task()
def pytest(model: Session) -> None:
    """2,000 tests: which five failed, and the line where the first did."""
    write_tests(model.work)
    said = model.run(f"{sys.executable} -m pytest -v -p no:cacheprovider")
    model.expect("5 names", all(f"test_order_{number}" in said for number in FAILING))
    if PLACE_OF_FIRST not in said:
        said = model.find(PLACE_OF_FIRST)
    model.expect("the line of the first", PLACE_OF_FIRST in said)


@task()
def search(model: Session) -> None:
    """A worker that runs and has printed 2,000 lines: the one error, far back."""
    model.serve(program(model.work, "worker.py", WORKER), "ready for requests")
    model.expect("the error", "KeyError" in model.find("ERROR"))
    end_all_of(model)


@task()
def pip(model: Session) -> None:
    """pip install of a large package."""
    model.run(f"{sys.executable} -m pip install --no-cache-dir --target packages numpy")
    model.expect("it is installed", (model.work / "packages" / "numpy").is_dir())


@task("npm")
def npm(model: Session) -> None:
    """npm install with an empty cache."""
    model.run("npm install --prefix . eslint")
    model.expect("it is installed", (model.work / "node_modules" / "eslint").is_dir())


@task("apt-get")
def apt(model: Session) -> None:
    """apt-get download of a package."""
    model.run("apt-get download gdb")
    model.expect("it is there", bool(list(model.work.glob("gdb_*.deb"))))


@task()
def tqdm(model: Session) -> None:
    """A progress bar of 8 seconds."""
    code = "import time, tqdm\nfor _ in tqdm.tqdm(range(200)): time.sleep(0.04)\n"
    said = model.run(f"PYTHONPATH={python_packages()} {program(model.work, 'bar.py', code)}")
    model.expect("200/200", "200/200" in said)


@task()
def pull(model: Session) -> None:
    """Six progress bars above each other, as `docker pull` draws them, for 8 seconds."""
    said = model.run(program(model.work, "pull.py", PULL))
    model.expect("6 complete", all(f"ef{layer}: Pull complete" in said for layer in range(6)))


@task()
def build(model: Session) -> None:
    """A build of 50 seconds that fails in its last line."""
    line = 'for n in $(seq 250); do echo "[$n/250] compiled unit_$n.c"; sleep 0.2; done; echo error: no _start; exit 1'
    model.expect("the error", "no _start" in model.run(line))


@task()
def daemon(model: Session) -> None:
    """A script that leaves a server running: it serves, and is ended."""
    port = free_port()
    serve = f"{sys.executable} -m http.server {port} --bind 127.0.0.1 --directory {model.work}"
    (model.work / "start.sh").write_text(f"{serve} >server.log 2>&1 &\necho started\n")
    model.expect("it has started", "started" in model.run("sh start.sh"))
    wait_until(lambda: is_open(port), "the server listens")
    end_all_of(model)
    model.expect("the port is closed", not is_open(port))


@task(reference_lacks="it has no queue")
def queue(model: WithBgjob) -> None:
    """build, then test, then deploy: handed in at once, waited for once."""
    model.start("sleep 1; echo build >>done", name="build", queue=True)
    model.start("echo test >>done", name="test", after=["build"])
    model.start("echo deploy >>done", name="deploy", after=["test"])
    model.call("wait_for_job", job_ids=["deploy"])
    model.expect("their order", (model.work / "done").read_text().split() == ["build", "test", "deploy"])


def end_all_of(model: Session) -> None:
    model.end()
    # a signal that the model had sent by another command may still be on its way
    wait_until(lambda: not left_in(model.work), "its processes are gone", within_s=10, every_s=0.02)
    model.expect("nothing is left", not left_in(model.work))


def program(work: Path, name: str, code: str) -> str:
    """The command that runs it."""
    (work / name).write_text(code)
    return f"{sys.executable} {work / name}"


def vite_project(work: Path) -> Path:
    """Its page's script."""
    (work / "package.json").write_text('{"type": "module", "scripts": {"dev": "vite"}}')
    (work / "index.html").write_text('<script type="module" src="/main.js"></script>')
    (work / "main.js").write_text("export const answer = 42\n")
    (work / "node_modules").symlink_to(npm_packages())
    return work / "main.js"


def write_tests(work: Path) -> None:
    (work / "orders.py").write_text("def total(order):\n    return 2 * order\n")
    head = "import time\nfrom orders import total\n"
    for first in range(0, TESTS, 100):
        tests = "".join(map(_test, range(first, first + 100)))
        (work / f"test_orders_{first // 100:02}.py").write_text(head + tests)


def _test(order: int) -> str:
    wanted = 2 * order + (order in FAILING)
    return textwrap.dedent(f"""
        def test_order_{order}():
            time.sleep(0.002)
            assert total({order}) == {wanted}
    """)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
