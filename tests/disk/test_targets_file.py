"""The file of targets on disk: beside the config file, and refused if another user could have written it."""

from pathlib import Path

import pytest

from bgjob.api.context import open_context
from bgjob.core.errors import BadTargetsFile
from bgjob.store.targets_file import read_targets, targets_path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bgjob").mkdir()
    return {"XDG_CONFIG_HOME": str(tmp_path), "BGJOB_HOME": str(tmp_path / "home")}


@pytest.fixture
def file(environ: dict[str, str]) -> Path:
    return Path(targets_path(environ))


def test_it_is_beside_the_config_file() -> None:
    assert targets_path({"XDG_CONFIG_HOME": "/c"}) == "/c/bgjob/targets.toml"
    assert targets_path({"HOME": "/h"}) == "/h/.config/bgjob/targets.toml"


def test_without_it_there_are_no_targets(environ: dict[str, str], file: Path) -> None:
    targets = read_targets(environ)
    assert (targets, targets.path) == ({}, str(file))


def test_it_is_read_when_the_jobs_are_opened(environ: dict[str, str], file: Path) -> None:
    file.write_text('[gpu]\nkind = "ssh"\nhost = "me@gpu"\n')
    context = open_context(environ, many=False)
    file.unlink()
    assert context.targets["gpu"].host == "me@gpu"
    assert context.targets.path == str(file)


def test_a_link_to_it_is_followed(environ: dict[str, str], file: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.toml").write_text('[a]\nkind = "slurm"')
    file.symlink_to(tmp_path / "dotfiles.toml")
    assert list(read_targets(environ)) == ["a"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"[a]\nkind", r"file of targets .*targets\.toml is not valid TOML: .*line 2"),
        (b"[a]\n[a]", r"is not valid TOML: .*line 2"),
        (b"a = " + b"[" * 5000, r"is not valid TOML"),
        (b"[a]\nkind = '\xff'", r"is not UTF-8"),
        (b"kind = 'ssh'", r"targets\.toml: \[kind\] is no table"),
        (b"[a]\nkind = 'x'", r"targets\.toml: \[a\] kind='x' is not valid"),
    ],
)
def test_what_is_wrong_is_told_with_the_file(
    environ: dict[str, str], file: Path, data: bytes, problem: str
) -> None:
    file.write_bytes(data)
    with pytest.raises(BadTargetsFile, match=problem):
        open_context(environ, many=False)


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_what_another_user_could_have_written_is_refused(
    environ: dict[str, str], file: Path, mode: int
) -> None:
    file.write_text('[a]\nkind = "slurm"')
    file.chmod(mode)
    with pytest.raises(BadTargetsFile, match=r"is not safe to use: .*everybody.*chmod go-w"):
        read_targets(environ)


def test_what_is_no_file_is_refused(environ: dict[str, str], file: Path) -> None:
    file.mkdir()
    with pytest.raises(BadTargetsFile, match="cannot be read: it is no regular file"):
        read_targets(environ)
