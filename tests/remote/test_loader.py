"""How the code comes to be over there: whatever login shells print, and whatever is left of it."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from bgjob.core.errors import TargetUnreachable
from bgjob.remote import bootstrap
from bgjob.remote import channel as near
from bgjob.remote.archive import Archive, _archive, archive, code_name, sources
from bgjob.remote.bootstrap import CHECKED, DAY_S, UNUSED_DAYS
from bgjob.remote.channel import Order
from bgjob.remote.loader import command, sent_code
from tests.remote.conftest import Open, Play

FAR = "bgjob/agent/serve.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "far" / "root"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the archives that were sent."""
    names: list[str] = []

    def noted(code: Archive) -> bytes:
        names.append(code.name)
        return sent_code(code)

    monkeypatch.setattr(near, "sent_code", noted)
    return names


def opened(play: Play, root: Path, argv: list[str] | None = None, **order: object) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel(argv, code_root=str(root), **order)
        assert await channel.call("ping") is None

    play(body)


def code(root: Path) -> Path:
    return root / "code" / code_name()


def test_the_code_is_sent_once(play: Play, root: Path, sent: list[str]) -> None:
    opened(play, root)
    opened(play, root)
    assert sent == [code_name()]
    assert {path.name for path in (root / "code").iterdir()} == {code_name()}


def test_every_directory_that_is_made_is_private(play: Play, root: Path) -> None:
    """os.makedirs' mode is for the last one only."""
    opened(play, root)
    made = (root.parent, root, root / "code", code(root), code(root) / "bgjob")
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}


def test_without_a_root_it_lives_in_the_home(play: Play, home: Path) -> None:
    async def body(open_channel: Open) -> None:
        await open_channel(code_root=None)

    play(body)
    assert (home / "code" / code_name() / FAR).exists()


@pytest.mark.parametrize(
    "noise", ["echo welcome", "printf 'no newline'", "seq 3000", "printf '{\"a\": 1}\\n'"]
)
def test_what_a_login_shell_prints_is_skipped(play: Play, root: Path, noise: str) -> None:
    opened(play, root, ["sh", "-c", f'{noise}; eval "$0"'])


def test_a_push_that_comes_damaged_is_refused_and_leaves_nothing(
    play: Play, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(near, "sent_code", lambda code: sent_code(code)[:-9] + b"\0" * 9)
        with pytest.raises(TargetUnreachable, match="came damaged"):
            opened(play, root)
    assert list((root / "code").iterdir()) == []
    opened(play, root)


def test_a_push_that_is_cut_leaves_nothing_that_counts(
    play: Play, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(near, "sent_code", lambda code: sent_code(code)[: len(code.data) // 2])
        patched.setattr(near, "OPEN_S", 1.0)
        with pytest.raises(TargetUnreachable, match=r"no answer|closed"):
            opened(play, root)
    opened(play, root)


def torn(root: Path, what: str) -> None:
    """As a power cut or a cleaner of old files may leave it."""
    if what == "no mark":
        (code(root) / CHECKED).unlink()
    elif what == "torn mark":
        (code(root) / CHECKED).write_text('{"sha256": "')
    elif what == "missing file":
        (code(root) / FAR).unlink()
    elif what == "empty file":
        (code(root) / FAR).write_bytes(b"")
        shutil.rmtree(code(root) / Path(FAR).parent / "__pycache__")
    else:  # in a boot of before, a file that is imported late
        (code(root) / "bgjob/api/doctor.py").write_bytes(b"")
        known = json.loads((code(root) / CHECKED).read_text())
        (code(root) / CHECKED).write_text(json.dumps({**known, "boots": ["another"]}))


@pytest.mark.parametrize("what", ["no mark", "torn mark", "missing file", "empty file", "another boot"])
def test_what_is_left_of_torn_code_is_replaced(play: Play, root: Path, sent: list[str], what: str) -> None:
    opened(play, root)
    torn(root, what)
    opened(play, root)
    assert sent == [code_name()] * 2
    assert {path.name for path in (root / "code").iterdir()} == {code_name()}
    files = {name: data for name, data in sources() if (code(root) / name).read_bytes() != data}
    assert files == {}


def test_after_another_boot_whole_code_is_checked_and_used(play: Play, root: Path, sent: list[str]) -> None:
    opened(play, root)
    mark = code(root) / CHECKED
    known = json.loads(mark.read_text())
    mark.write_text(json.dumps({**known, "boots": ["another"]}))
    opened(play, root)
    assert sent == [code_name()]
    assert json.loads(mark.read_text()) == {**known, "boots": ["another", *known["boots"]]}


def test_codes_that_nobody_has_used_for_long_are_removed(play: Play, root: Path) -> None:
    old, fresh, used, draft = (root / "code" / name for name in ("old", "fresh", "used", "x.host.1"))
    for path in (old, fresh, used, draft):
        path.mkdir(parents=True, mode=0o700)
    (root / "code").chmod(0o700)
    for path in (old, used, draft):
        long_ago = time.time() - (UNUSED_DAYS + 1) * DAY_S
        os.utime(path, (long_ago, long_ago))
    shim = subprocess.Popen(["sh", "-c", "read _", "sh", str(used)], stdin=subprocess.PIPE)
    try:
        opened(play, root)
    finally:
        shim.communicate()
    assert {path.name for path in (root / "code").iterdir()} == {code_name(), "fresh", "used"}


def test_a_directory_that_others_may_write_is_not_used(play: Play, root: Path) -> None:
    (root / "code").mkdir(parents=True)
    (root / "code").chmod(0o777)
    with pytest.raises(TargetUnreachable, match="others could put code into it"):
        opened(play, root)


@pytest.mark.parametrize(
    ("options", "trouble"), [("ro", "home_read_only"), ("size=64k", "home_full")], ids=["read-only", "full"]
)
def test_a_disk_that_takes_no_code_is_named_by_its_trouble(
    play: Play, tmp_path: Path, options: str, trouble: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs to mount a tmpfs")
    try:
        with pytest.raises(TargetUnreachable) as refusal:
            opened(play, disk)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert refusal.value.trouble == trouble


def test_a_host_without_python_says_so(play: Play, root: Path) -> None:
    tools = root / "bin"
    tools.mkdir(parents=True)
    (tools / "sh").symlink_to(shutil.which("sh") or "")
    with pytest.raises(TargetUnreachable, match=r"no python3 of 3\.9 or newer"):
        opened(play, root, ["env", f"PATH={tools}", "sh", "-c"])


def test_the_shell_line_is_one_for_every_shell() -> None:
    (line,) = command(Order(python="~/my env/bin/python3"))
    assert not set("\n!") & set(line)
    assert r"\\" not in line  # fish reads it between quotes
    assert '"$HOME"' in line


def test_the_same_code_has_the_same_bytes() -> None:
    _archive.cache_clear()
    first = archive()
    _archive.cache_clear()
    assert archive() == first
    assert code_name(lowered=True) != code_name()


def test_what_travels_is_what_the_far_half_needs() -> None:
    names = {name for name, _ in sources()}
    folders = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert folders.isdisjoint({"cli", "mcp", "web", "clients", "protocol"})
    assert {name for name in names if name.startswith("bgjob/remote/")} == {
        "bgjob/remote/__init__.py",
        "bgjob/remote/bootstrap.py",
        "bgjob/remote/client.py",
        "bgjob/remote/codec.py",
        "bgjob/remote/shared_root.py",
    }
    assert FAR in names


def test_the_program_that_is_sent_first_knows_nothing_of_ours() -> None:
    text = Path(bootstrap.__file__).read_text()
    assert "from bgjob" not in text
    assert "import bgjob" not in text
