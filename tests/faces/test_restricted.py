"""A server with an allow-list, beside one without: what it may type into, and what its own jobs cannot open."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Server, StartServer, ToolError

REFUSED = r"^Job [0-9a-f-]{36} cannot be steered by this server: "


def type_into(server: Server, job_id: str, text: str = "a") -> dict[str, Any]:
    return server.call("interact_with_job", job_id=job_id, input=text, wait_s=1)


@pytest.fixture
def restricted(start_server: StartServer, tmp_path: Path) -> Server:
    workplace = tmp_path / "workplace"
    workplace.mkdir()
    return start_server(
        MCP_BG_ALLOWED_COMMANDS="^cat$,^env$,^less notes$,^git help -a$", MCP_BG_WORKING_DIR=str(workplace)
    )


class TestAJobOfAnotherServer:
    def test_is_typed_into_only_if_the_list_would_have_allowed_it(
        self, start_server: StartServer, restricted: Server, tmp_path: Path
    ) -> None:
        free, inside = start_server(MCP_BG_MAX_JOBS="20"), str(tmp_path / "workplace")
        for command in ("sh", "cat; sh", "cat | sh"):
            with pytest.raises(ToolError, match=REFUSED + ".*MCP_BG_ALLOWED_COMMANDS"):
                type_into(restricted, free.execute(command, cwd=inside), f"touch {inside}/x")
        with pytest.raises(ToolError, match=REFUSED + ".*MCP_BG_WORKING_DIR"):
            type_into(restricted, free.execute("cat", cwd="/tmp"))
        assert list(Path(inside).iterdir()) == []
        assert type_into(restricted, free.execute("cat", cwd=inside))["accepted_bytes"] == 2

    def test_on_a_terminal_is_not_typed_into(
        self, start_server: StartServer, restricted: Server, tmp_path: Path
    ) -> None:
        """Its pager may run commands, whatever the job's own command is."""
        free = start_server()
        with pytest.raises(ToolError, match=REFUSED + ".*terminal"):
            type_into(restricted, free.execute("cat", cwd=str(tmp_path / "workplace"), pty=True))

    def test_is_typed_into_by_a_server_without_a_list(
        self, start_server: StartServer, restricted: Server
    ) -> None:
        assert type_into(start_server(), restricted.execute("cat"))["accepted_bytes"] == 2


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
    def test_that_is_a_pager_runs_no_other_command(self, restricted: Server, tmp_path: Path) -> None:
        notes = tmp_path / "workplace" / "notes"
        notes.write_text("line\n" * 100)
        job_id = restricted.execute("less notes", pty=True)
        restricted.wait_until_printed(job_id, "line")
        type_into(restricted, job_id, "!touch ran; echo do''ne\n")
        type_into(restricted, job_id, "q")
        (job,) = restricted.call("wait_for_job", job_ids=[job_id], timeout_s=20)["jobs"]
        assert job["condition"] == "exit"
        assert [entry.name for entry in notes.parent.iterdir()] == ["notes"]


def test_a_server_without_a_list_leaves_pagers_alone(start_server: StartServer) -> None:
    server = start_server(PAGER="less -R", EDITOR="ed", LESSSECURE="")
    answer = server.call("execute_command", command="env", wait_s=30)
    assert {"PAGER=less -R", "EDITOR=ed", "LESSSECURE="} <= {*answer["stdout"].splitlines()}
