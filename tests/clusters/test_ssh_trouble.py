"""What keeps a host from being used is shown with advice that goes by the kind of trouble, not by its text."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.api.targets import TargetStatus, target_statuses
from bgjob.core.errors import TargetUnreachable
from tests.clusters.engine import Ssh
from tests.clusters.ssh_hosts import SshHosts, shell_is_noisy
from tests.clusters.target import Target

NewTarget = Callable[..., Target]
BY_HAND = "To see more, run: ssh h1 true"
CLOSED = "echo This account is closed. Ask Ada; exit 3\n"


def status(target: Target) -> TargetStatus:
    """Return what `bgjob targets --check` reports; a start is refused with the same advice."""
    (found,) = target_statuses(target.jobs.context, [str(target.name)], check=True)
    assert found.reachable is False
    assert found.why
    with pytest.raises(TargetUnreachable) as refusal:
        target.start("true")
    assert refusal.value.advice == found.advice
    assert target.jobs.list().jobs == []
    return found


def with_options(ssh: Ssh, *changed: str) -> dict[str, Any]:
    names = {option.partition("=")[0] for option in changed}
    kept = [each for each in ssh.hosts.options(ssh.host) if each.partition("=")[0] not in names]
    return {"ssh_options": [*changed, *kept]}


@pytest.mark.parametrize(
    ("changed", "advice", "by_hand"),
    [
        ("UserKnownHostsFile=/dev/null", "accept its key", True),
        ("IdentityFile=/dev/null", "log in without a question", True),
        ("Port=1", "Nothing listens there", True),
        ("HostName=no-such-host.invalid", "Fix its host", False),
    ],
    ids=str,
)
def test_what_ssh_says(new_target: NewTarget, ssh: Ssh, changed: str, advice: str, by_hand: bool) -> None:
    found = status(new_target(ssh, keys=with_options(ssh, changed)))
    assert advice in (found.advice or "")
    assert (BY_HAND in (found.advice or "")) == by_hand


def test_a_host_whose_key_has_changed(new_target: NewTarget, ssh: Ssh, tmp_path: Path) -> None:
    known = next(each for each in ssh.hosts.options(ssh.host) if each.startswith("UserKnownHostsFile="))
    lines = Path(known.partition("=")[2]).read_text().splitlines()
    others = [line.replace("h2 ", "h1 ", 1) for line in lines if line.startswith("h2 ")]
    (tmp_path / "known").write_text("\n".join(others) + "\n")
    found = status(new_target(ssh, keys=with_options(ssh, f"UserKnownHostsFile={tmp_path}/known")))
    assert "find out why" in (found.advice or "")


def test_a_home_that_cannot_be_written_is_no_question_of_keys(new_target: NewTarget, ssh: Ssh) -> None:
    found = status(new_target(ssh, keys={"home": "/dev/null/home"}))
    assert found.advice == "Set home to a directory on that host that you can write to."


def test_a_home_that_others_can_write_into(new_target: NewTarget, ssh: Ssh, tmp_path: Path) -> None:
    home = tmp_path / "open"
    (home / "code").mkdir(parents=True)
    (home / "code").chmod(0o777)
    found = status(new_target(ssh, keys={"home": str(home)}))
    assert "only you can access" in (found.advice or "")


@pytest.mark.parametrize(
    ("program", "how"),
    [
        (None, "is not there"),
        ("#!/bin/sh\nexit 3\n", "cannot be run"),
        ('#!/bin/sh\nfor last; do :; done\n[ -z "$last" ]\n', "is older than 3.9"),
    ],
    ids=["missing", "broken", "old"],
)
def test_a_python_that_was_asked_for_is_never_replaced(
    new_target: NewTarget, ssh: Ssh, tmp_path: Path, program: str | None, how: str
) -> None:
    python = tmp_path / "python"
    if program:
        python.write_text(program)
        python.chmod(0o700)
    found = status(new_target(ssh, keys={"python": str(python)}))
    assert f"its python, set to {python}, {how}" in (found.why or "")
    assert "Set python to a Python 3.9 or newer" in (found.advice or "")


def test_a_python_that_was_asked_for_is_used(new_target: NewTarget, ssh: Ssh, tmp_path: Path) -> None:
    python, seen = tmp_path / "python", tmp_path / "seen"
    python.write_text(f'#!/bin/sh\necho x >> {seen}\nexec {sys.base_prefix}/bin/python3 "$@"\n')
    python.chmod(0o700)
    target = new_target(ssh, keys={"python": str(python)})
    target.ended(target.start("true"))
    assert seen.exists()


@contextlib.contextmanager
def written(path: Path, text: str) -> Iterator[None]:
    before = path.read_text() if path.exists() else None
    path.write_text(text)
    try:
        yield
    finally:
        path.unlink() if before is None else path.write_text(before)


def test_a_login_shell_that_prints_and_exits(new_target: NewTarget, ssh: Ssh) -> None:
    if not shell_is_noisy():
        pytest.skip("the login shell reads no file before a command")
    with written(ssh.host.home / ".bashrc", CLOSED), written(ssh.host.home / ".zshenv", CLOSED):
        found = status(new_target(ssh))
    assert "ended with exit code 3" in (found.why or "")
    assert "This account is closed. Ask Ada" in (found.why or "")
    assert "must not exit" in (found.advice or "")
    assert BY_HAND in (found.advice or "")


def test_a_key_with_a_forced_command(new_target: NewTarget, ssh: Ssh, ssh_hosts: SshHosts) -> None:
    authorized = Path(ssh.host.home).parent / "keys/authorized"
    forced = f'command="echo Only git here; exit 1" {authorized.read_text()}'
    with written(authorized, forced):
        found = status(new_target(ssh))
    assert "Only git here" in (found.why or "")
    assert "command=" in (found.advice or "")
