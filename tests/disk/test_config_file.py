"""The config file on disk: found where it belongs, refused if another user could have written it."""

import os
from pathlib import Path

import pytest

from bgjob.core.config import NO_FILE
from bgjob.core.errors import BadConfigFile
from bgjob.store.config_file import MOST_BYTES, config_path, read_config_file


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bgjob").mkdir()
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def file(environ: dict[str, str]) -> Path:
    return Path(config_path(environ))


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/c/bgjob/config.toml"),
        ({"HOME": "/h"}, "/h/.config/bgjob/config.toml"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/bgjob/config.toml"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/bgjob/config.toml"),
    ],
)
def test_it_is_where_the_xdg_specification_has_it(environ: dict[str, str], path: str) -> None:
    assert config_path(environ) == path


def test_a_file_that_is_not_there_sets_nothing(environ: dict[str, str]) -> None:
    assert read_config_file(environ) == NO_FILE
    assert read_config_file({"XDG_CONFIG_HOME": os.devnull}) == NO_FILE


def test_its_values_are_read(environ: dict[str, str], file: Path) -> None:
    file.write_text("max_jobs = 4\n[limits]\nmemory = '4GB'\n")
    read = read_config_file(environ)
    assert (read.path, read.values) == (str(file), {"max_jobs": 4, "limits": {"memory": "4GB"}})


def test_a_link_to_it_is_followed(environ: dict[str, str], file: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.toml").write_text("max_jobs = 4")
    file.symlink_to(tmp_path / "dotfiles.toml")
    assert read_config_file(environ).values == {"max_jobs": 4}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"max_jobs = 4\nkeep_jobs", r"not valid TOML: .*line 2"),
        (b"max_jobs = 4\nmax_jobs = 5", r"not valid TOML: .*line 2"),
        (b"max_jobs = " + b"[" * 5000, r"not valid TOML"),
        (b"max_jobs = " + b"1" * 5000, r"not valid TOML"),
        (b"on_event = '\xff'", r"not UTF-8"),
        (b"#" * MOST_BYTES, r"more than 1048576 bytes"),
    ],
)
def test_what_is_no_toml_is_told_with_its_file_and_line(
    environ: dict[str, str], file: Path, data: bytes, problem: str
) -> None:
    file.write_bytes(data)
    with pytest.raises(BadConfigFile, match=f"{file} .*{problem}"):
        read_config_file(environ)


class TestWhatAnotherUserCouldHaveWritten:
    @pytest.mark.parametrize(
        ("mode", "who"), [(0o602, "everybody"), (0o666, "everybody"), (0o620, "group 12345")]
    )
    def test_by_the_mode_of_the_file_is_refused(
        self, environ: dict[str, str], file: Path, mode: int, who: str
    ) -> None:
        file.write_text("max_jobs = 4")
        if who != "everybody":
            if os.geteuid():
                pytest.skip("only root can give a file to another group")
            os.chown(file, -1, 12345)
        file.chmod(mode)
        with pytest.raises(BadConfigFile, match=rf"{file} is not safe to use: it can be written by {who}"):
            read_config_file(environ)

    def test_by_the_mode_of_a_directory_above_is_refused(self, environ: dict[str, str], file: Path) -> None:
        file.write_text("max_jobs = 4")
        file.parent.chmod(0o777)
        with pytest.raises(
            BadConfigFile, match=f"{file.parent}, in which it is, can be written by everybody"
        ):
            read_config_file(environ)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
    def test_as_its_owner_is_refused(self, environ: dict[str, str], file: Path) -> None:
        file.write_text("max_jobs = 4")
        os.chown(file, 12345, -1)
        with pytest.raises(BadConfigFile, match="it belongs to uid 12345"):
            read_config_file(environ)


class TestSomethingElseInItsPlace:
    def test_a_directory_is_told(self, environ: dict[str, str], file: Path) -> None:
        file.mkdir()
        with pytest.raises(BadConfigFile, match="it is no regular file"):
            read_config_file(environ)

    def test_a_fifo_blocks_nobody(self, environ: dict[str, str], file: Path) -> None:
        os.mkfifo(file)
        with pytest.raises(BadConfigFile, match="it is no regular file"):
            read_config_file(environ)

    def test_a_link_to_nothing_is_told(self, environ: dict[str, str], file: Path) -> None:
        file.symlink_to("nothing")
        with pytest.raises(BadConfigFile, match="cannot be read: No such file"):
            read_config_file(environ)
