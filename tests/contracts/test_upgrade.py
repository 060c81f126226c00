"""A server goes on as it is while another version is installed over it; two builds of a version differ."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bgjob
from bgjob import __version__
from bgjob.mcp.server import FOLDERS
from bgjob.system.own_package import build_in
from tests.support.http_server import HttpServer, stateless
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until

PACKAGE = Path(bgjob.__file__).parent
READ = [f"bgjob://jobs/{{id}}/{part}" for part in ("status", "stdout", "screen")]
# a server that says when all of these modules are there
SCHEMAS_ARE_READ = (
    "from bgjob.mcp.tools import TOOLS\n    while not TOOLS.__dict__.get('schemas'): time.sleep(0.02)"
)
LOOK = """
import sys, threading, time
def look():
    while not all(name in sys.modules and not sys.modules[name].__spec__._initializing for name in {names!r}):
        time.sleep(0.02)
    {then}
    open({mark!r}, "w").close()
threading.Thread(target=look, daemon=True).start()
"""


class Installed:
    """A copy of the package that a server runs from."""

    def __init__(self, directory: Path) -> None:
        self.package = directory / "installed" / "bgjob"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self._mark = directory / "all-is-imported"

    @property
    def variables(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.package.parent)}

    def look(self, *folders: str, then: str = "") -> str:
        """Statements for the server to run before it starts."""
        paths = [path for folder in folders for path in (self.package / folder).glob("[!_]*.py")]
        names = [".".join(path.with_suffix("").relative_to(self.package.parent).parts) for path in paths]
        return LOOK.format(names=names, mark=str(self._mark), then=then)

    def replace(self) -> None:
        """As soon as the server has had nothing to do: by what no server can use."""
        wait_until(self._mark.exists, "the server has imported all of itself")
        for path in [path for path in self.package.rglob("*") if path.is_file()]:
            path.write_text("this is another version(")
        for path in [*self.package.rglob("__pycache__")]:
            shutil.rmtree(path)


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def named(parameters: dict[str, Any]) -> list[tuple[str, str]]:
    """The header that repeats what is read."""
    return [("Mcp-Name", parameters["uri"])] if "uri" in parameters else []


def use_all(call: Callable[[str, dict[str, Any]], Any], ask: Callable[[str, dict[str, Any]], Any]) -> None:
    """Every tool and every kind of resource."""
    job_id = call("execute_command", {"command": "echo ready; cat", "pty": True})["job_id"]
    call("wait_for_job", {"job_ids": [job_id], "pattern": "ready$"})
    for tool in ("get_job_status", "get_job_output", "tail_job_output"):
        call(tool, {"job_id": job_id})
    call("search_job_output", {"pattern": "re[a-d]+y", "job_ids": [job_id]})
    call("job_events", {})
    call("list_jobs", {})
    call("interact_with_job", {"job_id": job_id, "input": "typed"})
    for method in ("resources/list", "resources/templates/list", "tools/list"):
        ask(method, {})
    for uri in READ:
        ask("resources/read", {"uri": uri.format(id=job_id)})
    reference = {"type": "ref/resource", "uri": "bgjob://jobs{?cursor}"}
    ask("completion/complete", {"ref": reference, "argument": {"name": "cursor", "value": ""}})
    call("kill_job", {"job_id": job_id})


def test_a_server_for_one_client_goes_on_as_it_is(installed: Installed, home: Path) -> None:
    start = f"{installed.look(*FOLDERS, then=SCHEMAS_ARE_READ)}\nfrom bgjob.cli import main; main(['mcp'])"
    with RawClient(home, (sys.executable, "-c", start), **installed.variables) as client:

        def call(tool: str, arguments: dict[str, Any]) -> Any:
            answer = ask("tools/call", {"name": tool, "arguments": arguments})
            assert not answer.get("isError"), answer
            return answer["structuredContent"]

        def ask(method: str, parameters: dict[str, Any]) -> Any:
            answer = client.ask(method, parameters)
            assert "result" in answer, client.stderr
            return answer["result"]

        client.shake_hands()
        client.execute("true")  # its zygote; one of another version does as well, see test_versions.py
        installed.replace()
        use_all(call, ask)


def test_a_server_over_http_goes_on_as_it_is(installed: Installed, home: Path) -> None:
    page_is_read = (
        "from bgjob.web.page import files\n    while not files.load.cache_info().currsize: time.sleep(0.02)"
    )
    look = installed.look(*FOLDERS, "web", "web/page", then=page_is_read)
    with HttpServer(home, first=look, **installed.variables) as server:

        def call(tool: str, arguments: dict[str, Any]) -> Any:
            return server.call(tool, **arguments)

        def ask(method: str, parameters: dict[str, Any]) -> Any:
            message, headers = stateless(method, **parameters)
            answer = server.post(message, *headers, *named(parameters)).json
            assert "result" in answer, answer
            return answer["result"]

        server.execute("true")
        installed.replace()
        use_all(call, ask)
        page = server.request("GET", "/", [server.host()])
        assert page.status == 200
        assert b"another version" not in page.body


class TestTheBuild:
    def git(self, directory: Path, *arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.check_output(["git", *identity, *arguments], cwd=directory, text=True).strip()

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        (tmp_path / "checkout" / "src").mkdir(parents=True)
        self.git(tmp_path, "init", "--quiet", "checkout")
        self.git(tmp_path / "checkout", "commit", "--quiet", "--allow-empty", "--message", "one")
        return tmp_path / "checkout"

    def test_of_a_checkout_it_is_the_commit(self, checkout: Path) -> None:
        commit = self.git(checkout, "rev-parse", "HEAD")
        assert build_in(str(checkout / "src")) == commit[:8]
        self.git(checkout, "pack-refs", "--all")
        assert build_in(str(checkout / "src")) == commit[:8]
        self.git(checkout, "checkout", "--quiet", "--detach")
        assert build_in(str(checkout / "src")) == commit[:8]

    def test_of_a_further_worktree_it_is_the_commit_there(self, checkout: Path) -> None:
        self.git(checkout, "worktree", "add", "--quiet", "../further")
        self.git(checkout.parent / "further", "commit", "--quiet", "--allow-empty", "--message", "two")
        commit = self.git(checkout.parent / "further", "rev-parse", "HEAD")
        assert build_in(str(checkout.parent / "further" / "src")) == commit[:8]
        assert build_in(str(checkout / "src")) != commit[:8]

    def test_of_what_was_installed_it_differs_if_a_file_does(self, tmp_path: Path) -> None:
        builds = [build_in(str(self.unpacked(tmp_path / name, text))) for name, text in ("ab", "cb", "dx")]
        assert builds[0] == builds[1] != builds[2]
        assert all(re.fullmatch("[0-9a-f]{8}", build) for build in builds)

    def test_of_what_was_installed_into_another_checkout_it_is_not_the_commit_there(
        self, checkout: Path
    ) -> None:
        commit = self.git(checkout, "rev-parse", "HEAD")
        assert build_in(str(self.unpacked(checkout / "vendor", "ab"))) != commit[:8]

    def unpacked(self, directory: Path, text: str) -> Path:
        """What an installer records: more than the package, in any order."""
        (record := directory / f"bgjob-{__version__}.dist-info").mkdir(parents=True)
        lines = [
            f"bgjob/a.py,sha256={text},1",
            "bgjob/b.py,sha256=2,2",
            f"../bin/bgjob,sha256={directory.name},3",
        ]
        (record / "RECORD").write_text("\n".join(lines[:: -1 if directory.name == "c" else 1]) + "\n")
        return directory

    def test_of_bare_files_nothing_is_said(self, tmp_path: Path) -> None:
        assert build_in(str(tmp_path)) == ""
