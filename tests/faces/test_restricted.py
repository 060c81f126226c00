"""A server with an allow-list, beside one without: what it may type into, and what its own jobs cannot open."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from tests.support.homes import end_all_jobs
from tests.support.server import Server, ToolError

REFUSED = r"^Job [0-9a-f-]{36} cannot be steered by this server: "


def type_into(server: Server, job_id: str, text: str = "a") -> dict[str, Any]:
    return server.call("interact_with_job", job_id=job_id, input=text, wait_s=1)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workplace")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("restricted") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def restricted(portal: BlockingPortal, home: Path, workplace: Path) -> Iterator[Server]:
    environment = {
        "MCP_BG_ALLOWED_COMMANDS": "^cat$,^env$,^less notes$,^git help -a$",
        "MCP_BG_WORKING_DIR": str(workplace),
        "MCP_BG_MAX_JOBS": "50",
    }
    with contextlib.closing(Server(portal, home, environment, "auto")) as server:
        yield server


@pytest.fixture(scope="module")
def free(portal: BlockingPortal, home: Path) -> Iterator[Server]:
    environment = {"MCP_BG_MAX_JOBS": "50", "PAGER": "less -R", "EDITOR": "ed", "LESSSECURE": ""}
    with contextlib.closing(Server(portal, home, environment, "auto")) as server:
        yield server


class TestAJobOfAnotherServer:
    def test_is_typed_into_only_if_the_list_would_have_allowed_it(
        self, free: Server, restricted: Server, workplace: Path
    ) -> None:
        inside = str(workplace)
        for command in ("sh", "cat; sh", "cat | sh"):
            with pytest.raises(ToolError, match=REFUSED + ".*MCP_BG_ALLOWED_COMMANDS"):
                type_into(restricted, free.execute(command, cwd=inside), "touch typed")
        with pytest.raises(ToolError, match=REFUSED + ".*MCP_BG_WORKING_DIR"):
            type_into(restricted, free.execute("cat", cwd="/tmp"))
        assert not (workplace / "typed").exists()
        assert type_into(restricted, free.execute("cat", cwd=inside))["accepted_bytes"] == 2

    def test_on_a_terminal_is_not_typed_into(self, free: Server, restricted: Server, workplace: Path) -> None:
        """Its pager may run commands, whatever the job's own command is."""
        with pytest.raises(ToolError, match=REFUSED + ".*terminal"):
            type_into(restricted, free.execute("cat", cwd=str(workplace), pty=True))

    def test_is_typed_into_by_a_server_without_a_list(self, free: Server, restricted: Server) -> None:
        assert type_into(free, restricted.execute("cat"))["accepted_bytes"] == 2


class TestItsOwnJob:
    def test_is_typed_into_on_a_terminal_too(self, restricted: Server) -> None:
        assert type_into(restricted, restricted.execute("cat", pty=True))["accepted_bytes"] == 2

    def test_has_pagers_and_editors_that_run_nothing(self, restricted: Server) -> None:
        answer = restricted.call("execute_command", command="env", wait_s=30)
        names = {"PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"}
        assert {f"{name}=cat" for name in names} | {"LESSSECURE=1", "EDITOR=false"} <= {
            *answer["stdout"].splitlines()
        }

    @pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
    def test_that_pages_its_output_ends_by_itself(self, restricted: Server) -> None:
        job_id = restricted.execute("git help -a", pty=True)
        (job,) = restricted.call("wait_for_job", job_ids=[job_id], timeout_s=20)["jobs"]
        assert (job["status"], job["exit_code"]) == ("completed", 0)

    @pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
    def test_that_is_a_pager_runs_no_other_command(self, restricted: Server, workplace: Path) -> None:
        notes = workplace / "notes"
        notes.write_text("line\n" * 100)
        job_id = restricted.execute("less notes", pty=True)
        restricted.wait_until_printed(job_id, "line")
        type_into(restricted, job_id, "!touch ran; echo do''ne\n")
        type_into(restricted, job_id, "q")
        (job,) = restricted.call("wait_for_job", job_ids=[job_id], timeout_s=20)["jobs"]
        assert job["condition"] == "exit"
        assert not (workplace / "ran").exists()


def test_a_server_without_a_list_leaves_pagers_alone(free: Server) -> None:
    answer = free.call("execute_command", command="env", wait_s=30)
    assert {"PAGER=less -R", "EDITOR=ed", "LESSSECURE="} <= {*answer["stdout"].splitlines()}
