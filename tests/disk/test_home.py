"""A home is used only where nobody else can replace it or write into it; one that vanishes is said to be gone."""

import contextlib
import grp
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bgjob.core.errors import CannotStart, JobNotFound, StoreUnusable
from bgjob.core.job import UnreadableSpec
from bgjob.home import watch_registry
from bgjob.store.store import DIRECTORIES, Store
from bgjob.system.own_argv import PACKAGE_ROOT
from tests.support.stores import ended_job, jobs_on, listed

NOBODY = 65534
ANY_PYTHON = "/usr/bin/python3"  # ours may be where only its owner can go
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to another user")


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(*paths: Path) -> list[str]:
    return [f"{path.stat().st_mode & 0o7777:o}" for path in paths]


def everything_in(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_dir()]


# -- making it ------------------------------------------------------------------------------------------


def test_each_directory_that_is_made_on_the_way_is_private_whatever_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b" / "c" / "home"
    with umask(0):
        Store(str(home))
    assert set(modes(*home.parents[:3], home, *everything_in(home))) == {"700"}


def test_what_is_there_already_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)  # whatever the umask
    Store(str(tmp_path / "state" / "deep" / "home"))
    assert modes(tmp_path / "state", tmp_path / "state" / "deep") == ["755", "700"]


# -- what is above it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("exists", [True, False], ids=["a home", "none yet"])
def test_a_directory_above_that_everybody_may_write_is_refused_by_name(
    tmp_path: Path, depth: int, exists: bool
) -> None:
    home = tmp_path / "above" / "between" / "home"
    home.parent.mkdir(parents=True)
    if exists:
        Store(str(home))
    above = home.parents[depth - 1]
    above.chmod(0o777)
    with pytest.raises(StoreUnusable, match="chmod o-w") as caught:
        Store(str(home))
    assert f"{above}, in which it is" in str(caught.value)
    assert home.exists() == exists
    above.chmod(0o1777)  # sticky, as /tmp is
    Store(str(home))


@needs_root
def test_a_directory_above_that_is_somebody_elses_is_refused_by_name(tmp_path: Path) -> None:
    above = tmp_path / "above"
    Store(str(above / "home"))
    os.chown(above, NOBODY, NOBODY)
    with pytest.raises(StoreUnusable, match=f"belongs to uid {NOBODY}") as caught:
        Store(str(above / "home"))
    assert str(above) in str(caught.value)


@needs_root
def test_a_group_may_write_above_it_only_if_it_is_its_owners_alone(tmp_path: Path) -> None:
    above = tmp_path / "above"
    Store(str(above / "home"))
    above.chmod(0o775)
    if grp.getgrgid(0).gr_mem in ([], ["root"]):
        Store(str(above / "home"))
    os.chown(above, 0, NOBODY)
    with pytest.raises(StoreUnusable, match=f"group {NOBODY}.*chmod g-w"):
        Store(str(above / "home"))


@needs_root
def test_a_sandbox_that_has_no_name_for_root_is_no_reason_to_refuse() -> None:
    """In a user namespace of a single id, everything that is root's seems to be somebody's whom nobody knows."""
    home = tempfile.mkdtemp()  # pytest's own directories are closed to others
    os.chown(home, NOBODY, NOBODY)
    sandboxed = ["unshare", "--user", "--map-user=1000", ANY_PYTHON, "-c"]
    code = f"import sys; sys.path[:0] = [{PACKAGE_ROOT!r}]; from bgjob.home import home_dir; "
    try:
        if as_nobody([*sandboxed, f"{code} assert __import__('os').stat('/').st_uid not in (0, 1000)"]):
            pytest.skip("no such sandbox here, or our code is out of its sight")
        assert as_nobody([*sandboxed, f"{code} home_dir.open_safe({home!r})"]) == ""
    finally:
        shutil.rmtree(home)


def as_nobody(command: list[str]) -> str:
    """What it complains of."""
    try:
        done = subprocess.run(
            command, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True, check=False
        )
    except OSError as error:
        return str(error)
    return done.stderr.decode() if done.returncode else ""


# -- a link to it -----------------------------------------------------------------------------------------


def test_a_home_behind_a_link_is_used_where_it_really_is(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir(mode=0o700)
    link.symlink_to("real")
    store = Store(str(link))
    job_id = ended_job(store)
    assert store.home == str(real)
    assert (real / "jobs" / job_id).is_dir()
    link.unlink()
    assert listed(store) == [job_id]


def test_what_is_wrong_with_a_home_behind_a_link_is_said_of_the_real_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    real.chmod(0o755)
    link.symlink_to("real")
    with pytest.raises(StoreUnusable, match=f"{real} is open to other users .mode 755.. Run chmod 700"):
        Store(str(link))
    real.rmdir()
    with pytest.raises(StoreUnusable, match=f"{link} is a link to {real}, which does not exist"):
        Store(str(link))
    assert not real.exists()


# -- what is in it ----------------------------------------------------------------------------------------


def a_link(path: Path) -> None:
    shutil.move(path, path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


def of_another_user(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize(
    "spoil", [a_link, open_to_all, pytest.param(of_another_user, marks=needs_root)], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_directory_in_it_that_others_could_have_filled_is_refused_by_name(
    tmp_path: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    home = tmp_path / "home"
    store = Store(str(home))
    spoil(home / name)
    with pytest.raises(StoreUnusable, match=f"{home / name} .*Move it away"):
        Store(str(home))
    with pytest.raises(StoreUnusable, match="Move it away"):
        jobs_on(store).execute("true")


@pytest.mark.parametrize("spoil", [a_link, open_to_all], ids=lambda spoil: spoil.__name__)
def test_the_directory_of_watches_is_looked_at_by_whoever_needs_it(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    store = Store(str(tmp_path / "home"))
    watch_registry.add(store.home, ended_job(store))
    spoil(Path(store.home, watch_registry.WATCHES))
    with pytest.raises(CannotStart, match="Move it away"):
        jobs_on(store).execute("true", watch=["x"])


@needs_root
def test_records_that_another_user_wrote_are_not_believed(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "home"))
    job_id = ended_job(store)
    os.chown(Path(store.directory(job_id), "spec.json"), NOBODY, NOBODY)
    assert isinstance(store.load(job_id).spec, UnreadableSpec)


# -- one that goes ----------------------------------------------------------------------------------------


def test_of_a_home_that_was_deleted_nothing_is_listed_and_its_jobs_are_said_to_be_out_of_sight(
    tmp_path: Path,
) -> None:
    store = Store(str(tmp_path / "home"))
    job_id = ended_job(store)
    assert listed(store) == [job_id]
    shutil.rmtree(store.home)
    assert listed(store) == []
    with pytest.raises(StoreUnusable, match=f"{store.home} is gone"):
        store.load(job_id)
    with pytest.raises(JobNotFound):
        store.load("no id")
    assert not Path(store.home).exists()


@pytest.mark.parametrize("left", [None, *DIRECTORIES])
def test_the_next_start_makes_what_is_gone_again_and_private(tmp_path: Path, left: str | None) -> None:
    """All of it, or one directory."""
    home = tmp_path / "state" / "home"
    store = Store(str(home))
    shutil.rmtree(home.parent if left is None else home / left)
    with umask(0):
        store.prepare()
        job_id = ended_job(store)
        watch_registry.add(store.home, job_id)
    assert listed(store) == [job_id]
    assert set(modes(home, *everything_in(home))) == {"700"}


def test_another_home_in_its_place_is_noticed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store = Store(str(home))
    before = ended_job(store)
    assert listed(store) == [before]
    home.rename(tmp_path / "away")
    now = ended_job(Store(str(home)), created_at=time.time() - 60)
    assert listed(store) == [now]
    with pytest.raises(JobNotFound):
        store.load(before)


@needs_root
def test_another_users_home_in_its_place_is_neither_read_nor_used(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store, jobs = Store(str(home)), jobs_on(Store(str(home)))
    job_id = ended_job(store)
    os.chown(home, NOBODY, NOBODY)
    for act in (
        store.ids,
        lambda: store.load(job_id),
        lambda: jobs.execute("true"),
        lambda: Store(str(home)),
    ):
        with pytest.raises(StoreUnusable, match=f"belongs to uid {NOBODY}"):
            act()


def test_a_home_that_is_opened_to_others_is_no_longer_used(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "home"))
    Path(store.home).chmod(0o755)
    with pytest.raises(StoreUnusable, match="chmod 700"):
        list(store.ids())
    Path(store.home).chmod(0o700)
    assert list(store.ids()) == []
