"""bgjob rm: an ended job goes with its output; one that something still needs stays."""

import json
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import JobNotFound
from tests.faces.command_line import Cli, Ended, assert_one_line_of_error
from tests.support.waiting import wait_until


def is_there(jobs: Jobs, job_id: str) -> bool:
    return Path(jobs.directory(job_id)).is_dir()


class TestAnEndedJob:
    def test_goes_with_its_output(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        job_id = cli.run("--name", "old", "echo something")
        ended(job_id)
        said = cli("rm", "old")
        assert said.stdout.startswith("removed (")
        assert (said.returncode, said.stderr, is_there(jobs, job_id)) == (0, "", False)
        assert job_id not in [job.id for job in jobs.list().jobs]
        with pytest.raises(JobNotFound):
            jobs.status(job_id)
        assert list(Path(jobs.home, "trash").iterdir()) == []

    def test_goes_as_soon_as_it_has_ended(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        """Its shim leaves a moment later."""
        for number in range(5):
            job_id = jobs.execute(f"seq {number * 10_000}").id
            ended(job_id)
            assert cli("rm", job_id).returncode == 0

    def test_several_have_a_line_each(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        ids = [cli.run("--name", f"job {number}", "true") for number in range(3)]
        for job_id in ids:
            ended(job_id)
        lines = cli("rm", *ids).stdout.splitlines()
        assert [line[:8] for line in lines] == [job_id[:8] for job_id in ids]
        assert all(line.endswith(f"job {number}") for number, line in enumerate(lines))

    def test_as_json(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("echo something")
        ended(job_id)
        said = json.loads(cli("rm", "--json", job_id).stdout)
        assert said.pop("freed_bytes") > 0
        assert said == {"job_id": job_id, "status": "removed"}


class TestOneThatIsNeeded:
    def test_a_running_one_stays(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("exec cat")
        assert_one_line_of_error(cli("rm", job_id), "it runs", "bgjob kill ends it", "bgjob rm -f")
        assert is_there(jobs, job_id)

    def test_unless_it_is_killed_first(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("exec cat")
        pids = jobs.processes(job_id)
        assert cli("rm", "-f", job_id).returncode == 0
        assert not is_there(jobs, job_id)
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)

    def test_several_are_killed_at_once(self, cli: Cli, tmp_path: Path) -> None:
        """Each ends by itself once both have been asked to."""
        for own, other in (("one", "two"), ("two", "one")):
            on_term = f"touch {own}; until [ -e {other} ]; do sleep 0.02; done; touch {own}-has-ended; exit"
            cli.run(
                "--name",
                own,
                "--cwd",
                str(tmp_path),
                f"trap '{on_term}' TERM; touch {own}-is-ready; while :; do sleep 0.02; done",
            )
        wait_until(lambda: len([*tmp_path.glob("*-is-ready")]) == 2)
        assert cli("rm", "-f", "one", "two").returncode == 0
        assert len([*tmp_path.glob("*-has-ended")]) == 2

    def test_one_in_the_queue_stays(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("--delay", "1000", "true")
        assert_one_line_of_error(cli("rm", job_id), "it waits in the queue")
        assert cli("rm", "-f", job_id).returncode == 0
        assert not is_there(jobs, job_id)

    def test_one_that_left_processes_running_stays(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("sleep 1000 & exit 3")
        wait_until(lambda: jobs.status(job_id).left_running == 1)
        assert_one_line_of_error(cli("rm", job_id), "it has left processes running, 1")
        assert cli("rm", "-f", job_id).returncode == 0
        assert not is_there(jobs, job_id)

    @pytest.mark.parametrize("force", [[], ["-f"]])
    def test_one_that_a_job_in_the_queue_runs_after_stays(
        self, cli: Cli, jobs: Jobs, ended: Ended, force: list[str]
    ) -> None:
        first = cli.run("true")
        ended(first)
        cli.run("--after", first, "--delay", "1000", "true")
        refused = cli("rm", *force, first)
        assert_one_line_of_error(refused, "a job in the queue is to run after it.")
        assert refused.stderr.endswith("after it.\n")
        assert is_there(jobs, first)

    def test_keeps_no_other_from_going(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        running, over = cli.run("exec cat"), cli.run("true")
        ended(over)
        said = cli("rm", running, over)
        assert (said.returncode, is_there(jobs, running), is_there(jobs, over)) == (1, True, False)

    def test_too_little_of_an_id_removes_nothing(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        job_id = cli.run("true")
        ended(job_id)
        assert_one_line_of_error(cli("rm", job_id[:2]), "too little of an id")
        assert cli("rm").returncode == 2
        assert is_there(jobs, job_id)
