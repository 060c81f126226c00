"""bgjob targets, and jobs of a target on the command line: shown where there are some, and as before where not."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.core.targets import targets_from
from tests.faces.command_line import Cli, assert_one_line_of_error
from tests.support.far_machine import NAME, FarMachine, far_machine
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarMachine]:
    with far_machine(tmp_path_factory.mktemp("targets")) as far:
        file = targets_file(far)
        file.write_text(file.read_text() + 'description = "of the tests"\nsettings = {max_jobs = 2}\n')
        yield far


def targets_file(far: FarMachine) -> Path:
    return Path(far.environ["XDG_CONFIG_HOME"], "bgjob/targets.toml")


@pytest.fixture(scope="module")
def there(far: FarMachine) -> Cli:
    cli = Cli(far.near_home)
    cli.environment |= far.environ
    return cli


class TestTheTargets:
    def test_are_shown_with_what_is_free(self, there: Cli) -> None:
        shown = there("targets")
        assert (shown.returncode, shown.stderr) == (0, "")
        lines = shown.stdout.splitlines()
        assert lines[0] == f"{NAME}  ssh, far"
        assert "  state   reachable" in lines
        assert "  about   of the tests" in lines
        assert "  queue   0 running, 0 queued, 2 slots" in lines
        assert any(line.startswith("  NODE  STATE  CPUS FREE") for line in lines)

    def test_are_json_for_scripts(self, there: Cli, far: FarMachine) -> None:
        told = json.loads(there("targets", "--json", NAME).stdout)
        assert told["file"] == str(targets_file(far))
        (target,) = told["targets"]
        assert target["name"] == NAME
        assert target["reachable"] is True
        assert target["nodes"][0]["is_up"]

    def test_can_be_checked(self, there: Cli) -> None:
        assert there("targets", "--check").returncode == 0

    def test_that_do_not_answer_are_told_with_what_to_do(self, there: Cli, far: FarMachine) -> None:
        far.refuse_connections()
        far.cut_line()
        try:
            checked = there("targets", "--check")
        finally:
            far.accept_connections()
        assert checked.returncode == 1
        assert "  state   unreachable" in checked.stdout
        assert "Connection refused" in checked.stdout
        assert "To see more, run: ssh far true" in checked.stdout

    def test_that_there_is_not_are_refused(self, there: Cli, far: FarMachine) -> None:
        assert_one_line_of_error(there("targets", "gpu"), "--target='gpu'", NAME, str(targets_file(far)))

    def test_need_no_file(self, cli: Cli, tmp_path: Path) -> None:
        shown = cli("targets", env={"XDG_CONFIG_HOME": str(tmp_path)})
        assert shown.returncode == 0
        assert f"{tmp_path}/bgjob/targets.toml, which is not there" in shown.stdout
        told = cli("targets", "--json", "--check", env={"XDG_CONFIG_HOME": str(tmp_path)})
        assert json.loads(told.stdout) == {"targets": [], "file": f"{tmp_path}/bgjob/targets.toml"}
        assert told.returncode == 0

    def test_have_a_file_whose_place_and_example_are_printed(self, cli: Cli, tmp_path: Path) -> None:
        environment = {"XDG_CONFIG_HOME": str(tmp_path)}
        assert cli("targets", "--path", env=environment).stdout == f"{tmp_path}/bgjob/targets.toml\n"
        lines = cli("targets", "--example").stdout.splitlines()
        table = tomllib.loads("\n".join(line[1:] for line in lines if line[:1] == "#" and line[1] != " "))
        assert len(targets_from("targets.toml", table)) == 3

    def test_that_are_wrong_stop_every_command_and_say_where(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "bgjob").mkdir()
        (tmp_path / "bgjob/targets.toml").write_text('[gpu]\nkind = "ssh"\n')
        environment = {"XDG_CONFIG_HOME": str(tmp_path)}
        told = cli("ps", env=environment)
        assert_one_line_of_error(told, f"{tmp_path}/bgjob/targets.toml: [gpu] has no host")
        doctor = cli("doctor", env=environment)
        assert doctor.returncode == 1
        assert "broken    targets: " in doctor.stdout

    def test_are_completed(self, there: Cli) -> None:
        for words in (["run", "--target", ""], ["ps", "--target", ""], ["targets", ""]):
            answer = there("completion", "--complete", "zsh", "bgjob", *words).stdout
            assert answer == f"words\n{NAME}\tof the tests\n"

    def test_are_completed_by_nothing_if_their_file_is_wrong(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "bgjob").mkdir()
        (tmp_path / "bgjob/targets.toml").write_text("[")
        environment = {"XDG_CONFIG_HOME": str(tmp_path)}
        assert (
            cli("completion", "--complete", "zsh", "bgjob", "targets", "", env=environment).stdout
            == "words\n"
        )


class TestAJobThere:
    def test_is_run_waited_for_and_shown_with_its_target(self, there: Cli) -> None:
        done = there("run", "--target", NAME, "--name", "one", "--wait", "--", "exit 3")
        assert done.returncode == 3
        assert "target    far" in there("status", "one").stdout
        assert json.loads(there("status", "--json", "one").stdout)["target"] == NAME
        heads, row, *_ = there("ps", "--filter", "name=one").stdout.splitlines()
        assert heads.split()[3] == "TARGET"
        assert row.split()[1:5] == ["exit", "3", "one", NAME]

    def test_runs_where_the_target_says_and_not_here(
        self, there: Cli, far: FarMachine, tmp_path: Path
    ) -> None:
        there("run", "--target", NAME, "--name", "place", "--wait", "--", "pwd")
        assert there("logs", "place").stdout == f"{far.user_home}\n"
        there("run", "--target", NAME, "--cwd", str(tmp_path), "--name", "else", "--wait", "--", "pwd")
        assert there("logs", "else").stdout == f"{tmp_path}\n"

    def test_is_found_by_its_target(self, there: Cli) -> None:
        here = there.run("--name", "near", "--", "true")
        assert there("ps", "-q", "--target", "local").stdout.split() == [here]
        assert here not in there("ps", "-q", "--target", NAME).stdout
        assert (
            there("ps", "-q", "--filter", f"target={NAME}").stdout
            == there("ps", "-q", "--target", NAME).stdout
        )

    def test_that_waits_there_is_among_the_queued(self, there: Cli) -> None:
        first, second = (there.run("--target", NAME, "--", "cat") for _ in range(2))
        waiting = there.run("--target", NAME, "--queue", "--", "true")
        assert there("ps", "-q", "--status", "queued").stdout.split() == [waiting]
        assert waiting not in there("ps", "-q", "--status", "running").stdout
        (listed,) = json.loads(there("ps", "--json", "--status", "queued").stdout)["jobs"]
        assert (listed["status"], listed["target"]) == ("queued", NAME)
        assert "position" not in listed
        assert listed["reason"]
        for job_id in (waiting, first, second):
            assert there("kill", job_id).returncode == 0

    def test_that_cannot_be_reached_says_so_and_is_still_running(self, there: Cli, far: FarMachine) -> None:
        job_id = there.run("--target", NAME, "--", "cat")
        far.refuse_connections()
        far.cut_line()
        try:
            wait_until(lambda: "refused" in there("status", job_id).stdout, "the relay tried again")
            listed = there("ps", "--filter", f"id={job_id}").stdout
            assert "running" in listed
            assert f"{NAME} is unreachable since 20" in listed
            told = json.loads(there("status", "--json", job_id).stdout)
            assert told["status"] == "running"
            assert told["unreachable_since"].startswith("20")
            assert "Connection refused" in told["unreachable"]
            assert_one_line_of_error(there("run", "--target", NAME, "--", "true"), "sshd is running")
        finally:
            far.accept_connections()
        assert there("kill", job_id).returncode == 0

    def test_cannot_be_opened_in_a_browser_here(self, there: Cli) -> None:
        job_id = there.run("--target", NAME, "--", "cat")
        assert_one_line_of_error(there("open", job_id), f"it runs on {NAME}", "ssh -L")
        assert there("kill", job_id).returncode == 0

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--target", "gpu"], "--target='gpu' is not known."),
            (["--target", NAME, "--cpus", "2"], "--cpus needs a target of kind slurm or ray"),
            (["--target", NAME, "--session", "a"], "--session needs a target of kind slurm"),
            (["--gpus", "1"], "--gpus needs a target of kind slurm or ray, and this machine is none."),
            (["--time-limit", "2h"], "--time-limit needs a target of kind slurm, and this machine is none."),
            (["--label", "a=b"], "--label needs a target of kind slurm or ray"),
            (["--time-limit", "soon"], "--time-limit='soon' is not valid. Accepted: seconds from 1, or e.g. '2h'."),
            (["--memory", "lots"], "--limit memory='lots' is not valid."),
            (["--target", NAME, "--shell", "tcsh"], "--shell='tcsh' is not one we can use."),
        ],
    )  # fmt: skip
    def test_that_cannot_be_is_refused_in_the_words_of_the_command_line(
        self, there: Cli, words: list[str], told: str
    ) -> None:
        assert_one_line_of_error(there("run", *words, "--", "true"), told)


def test_memory_is_a_limit_of_a_job_of_this_machine(cli: Cli) -> None:
    job_id = cli.run("--memory", "64MB", "--", "true")
    assert json.loads(cli("status", "--json", job_id).stdout)["limits"] == {"memory": 64 << 20}


def test_without_jobs_of_a_target_there_is_no_column(cli: Cli) -> None:
    cli.run("--", "true")
    assert "TARGET" not in cli("ps").stdout
    assert '"target"' not in cli("ps", "--json").stdout
