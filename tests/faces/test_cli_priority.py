"""bgjob priority: jobs move within the queue."""

from bgjob.api import Jobs
from tests.faces.command_line import Cli, Ended, assert_one_line_of_error


def priorities(jobs: Jobs, ids: list[str]) -> list[int | None]:
    places = [jobs.status(job_id).place for job_id in ids]
    return [place.priority if place else None for place in places]


def test_several_jobs_move_at_once(cli: Cli, jobs: Jobs) -> None:
    ids = [cli.run("--delay", "1000", "--name", name, "true") for name in ("a", "b", "c")]
    assert cli("priority", "a", ids[2], "5").returncode == 0
    assert priorities(jobs, ids) == [5, 0, 5]
    assert cli("priority", "b", "-7").returncode == 0
    assert priorities(jobs, ids) == [5, -7, 5]


def test_a_number_that_is_none_moves_nothing(cli: Cli, jobs: Jobs) -> None:
    job_id = cli.run("--delay", "1000", "true")
    assert_one_line_of_error(cli("priority", job_id, "5000"), "--priority=5000", "from -1000 to 1000")
    assert cli("priority", job_id, "high").returncode == 2
    assert priorities(jobs, [job_id]) == [0]


def test_a_job_that_has_ended_is_in_no_queue(cli: Cli, ended: Ended) -> None:
    job_id = cli.run("true")
    ended(job_id)
    assert_one_line_of_error(cli("priority", job_id, "5"), "is not in the queue")
