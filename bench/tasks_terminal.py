"""Tasks at a prompt: interpreters, and what needs a terminal."""

import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.environments import npm_packages
from bench.session import Session, WithBgjob
from bench.tasks import task

NO_TERMINAL = "it has no terminal"
SLOW_S = 4
COUNT_LONG = "counted(n) as (select 1 union all select n + 1 from counted where n < 9999999)"
UPGRADE = """
sleep 4; echo 3 packages can be upgraded
printf 'Continue? [y/n] '; read answer
sleep 4; [ "$answer" = y ] && echo upgraded 3
"""


@dataclass(frozen=True)
class Interpreter:
    """`lines` and what each is to be answered with; "" where nothing is."""

    command: str
    without_terminal: str
    lines: list[tuple[str, str]]
    leave: str


PYTHON = Interpreter(
    sys.executable,
    f"{sys.executable} -i -u",
    [
        ("import time; total = sum(range(1000))", ""),
        (f"time.sleep({SLOW_S}); total", "499500"),
        ("total * 2", "999000"),
    ],
    "exit()",
)
NODE = Interpreter(
    "node",
    "node -i",
    [
        ("const total = [...Array(1000).keys()].reduce((sum, number) => sum + number)", ""),
        (f"await new Promise((done) => setTimeout(done, {SLOW_S}000, total))", "499500"),
        ("total * 2", "999000"),
    ],
    ".exit",
)
BASH = Interpreter(
    "bash",
    "bash",
    [
        ("total=$((999 * 500))", ""),
        (f"sleep {SLOW_S}; echo $total", "499500"),
        ("echo $((total * 2))", "999000"),
    ],
    "exit",
)
SQLITE = Interpreter(
    "sqlite3 orders.db",
    "sqlite3 orders.db",
    [
        ("create table orders(number integer);", ""),
        (f"insert into orders with recursive {COUNT_LONG} select max(n) from counted;", ""),
        ("select number + 1 from orders;", "10000000"),
    ],
    ".quit",
)


def use(model: Session, interpreter: Interpreter) -> None:
    model.open(interpreter.command, interpreter.without_terminal)
    for line, reply in interpreter.lines:
        said = model.type(line, reply)
        if reply:
            model.expect(reply, reply in said)
    model.leave(interpreter.leave)


@task()
def python_repl(model: Session) -> None:
    """python: a variable, a line of 4 seconds, a result, the end."""
    use(model, PYTHON)


@task("node")
def node_repl(model: Session) -> None:
    """node: the same."""
    use(model, NODE)


@task("bash")
def bash_repl(model: Session) -> None:
    """bash: the same."""
    use(model, BASH)


@task("sqlite3")
def sqlite_repl(model: Session) -> None:
    """sqlite3: a table, an insert of seconds, a result, the end."""
    use(model, SQLITE)
    rows = sqlite3.connect(model.work / "orders.db").execute("select number from orders").fetchall()
    model.expect("the row is in the file", rows == [(9999999,)])


@task()
def question(model: Session) -> None:
    """A script that works 4 seconds, asks y/n, and works on."""
    (model.work / "upgrade.sh").write_text(UPGRADE)
    model.open("sh upgrade.sh", "sh upgrade.sh", shows="3 packages")
    model.expect("it has gone on", "upgraded 3" in model.type("y", "upgraded 3"))


@task(reference_lacks=f"{NO_TERMINAL} and sends no signal but the last")
def interrupt(model: WithBgjob) -> None:
    """python: a line that does not end, ctrl-c, and its variables are still there."""
    model.open(sys.executable)
    model.type("total = 499500")
    model.interact(input="while True: pass\n\n", wait_s=1)
    model.interact(keys=["ctrl-c"])
    model.expect("999000", "999000" in model.type("total * 2", "999000"))
    model.leave("exit()")


@task("npm", "node", reference_lacks=NO_TERMINAL)
def create_vite(model: WithBgjob) -> None:
    """create-vite: name, framework, variant, no install."""
    model.start(f"node {npm_packages()}/create-vite/index.js", pty=True, wait_s=20)
    model.interact(input="demo")
    for menu in ("framework", "variant", "install"):
        model.interact(keys=["right" if menu == "install" else "down", "enter"])
    model.expect("demo/package.json", (model.work / "demo" / "package.json").exists())


@task("vim", reference_lacks=NO_TERMINAL)
def vim(model: WithBgjob) -> None:
    """vim: type a line, write, quit."""
    model.start("vim notes.txt", pty=True, wait_s=10)
    model.interact(input="ihello world", keys=["esc"])
    model.leave(":wq")
    model.expect("the file's one line", file(model, "notes.txt") == "hello world\n")


@task("whiptail", reference_lacks=NO_TERMINAL)
def whiptail(model: WithBgjob) -> None:
    """whiptail: the second entry of a menu."""
    menu = "whiptail --menu Pick 15 40 3 a Apple b Banana c Cherry 2>choice"
    model.expect("Banana is seen", "Banana" in str(model.start(menu, pty=True, wait_s=10)))
    model.interact(keys=["down", "enter"])
    model.expect("b", file(model, "choice") == "b")


def file(model: Session, name: str) -> str:
    return Path(model.work, name).read_text()
