"""Power cuts, tried out: the file-system calls of real jobs are recorded, then replayed on a disk that forgets.

The disk of the model promises what POSIX promises, and no more. An fsync of a file keeps the bytes that were
written to it before the call, an fsync of a directory its names. Whatever else was done may have reached the
disk or not, in any order: a name without its bytes, bytes without their name, half a write, a length with
zeros instead of bytes, one side of a move between two directories. Only a rename within one directory is whole
or not at all. Real file systems forget less (ext4, XFS and Btrfs keep names in order): what survives this
one survives them.
"""

from __future__ import annotations

import os
import random
import re
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = 0
DIRECTORY, FILE, SOCKET = stat.S_IFDIR, stat.S_IFREG, stat.S_IFSOCK
OTHER_BOOT = b"5eb7c1a0-0000-4000-8000-000000000000"
DELETED_LATER = b"?"  # stands for bytes that nobody has any more: no job of ours prints it
STRING_MAX_BYTES = 1 << 20
PATH_MAX_BYTES = 4096
PATIENCE_S = 60


# -- what happened --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Naming:
    """Names of one directory set (to an inode) or removed (None), all at once."""

    inode: int
    names: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Writing:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Cutting:
    """A file made shorter or longer."""

    inode: int
    size: int


Change = Naming | Writing | Cutting


@dataclass(frozen=True)
class Syncing:
    """An fsync that has returned; it covers what was done before it `began`, as a number of changes."""

    inode: int
    began: int


@dataclass(frozen=True)
class Telling:
    """What the starter wrote down for us: from here on its promises hold."""

    words: str


@dataclass(frozen=True)
class Recording:
    kinds: list[int]
    """Of each inode: a directory, a file or a socket."""
    events: list[Change | Syncing | Telling]

    def changes(self) -> list[Change]:
        return [event for event in self.events if isinstance(event, Change)]

    def path_of(self, inode: int) -> str:
        """One that it ever had."""
        names = [
            (change.inode, name)
            for change in self.changes()
            if isinstance(change, Naming)
            for name, named in change.names
            if named == inode
        ]
        return "/".join([self.path_of(names[-1][0]), names[-1][1]]) if names else ""

    def without(self, is_dropped: Callable[[Syncing, list[str]], bool]) -> Recording:
        """As if these fsyncs had not been called; the list is what had been told by then."""
        told: list[str] = []
        kept: list[Change | Syncing | Telling] = []
        for event in self.events:
            if isinstance(event, Telling):
                told.append(event.words)
            if not (isinstance(event, Syncing) and is_dropped(event, told)):
                kept.append(event)
        return Recording(self.kinds, kept)


# -- the recorder ---------------------------------------------------------------------------------------

STRACE = ["strace", "-f", "-y", "-xx", "-s", str(STRING_MAX_BYTES), "--signal=none", "--seccomp-bpf"]
CALLS = (
    "open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,splice,sendfile,copy_file_range,lseek,"
    "truncate,ftruncate,fallocate,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,"
    "mkdir,mkdirat,rmdir,mknod,mknodat,bind,fsync,fdatasync,sync,syncfs,chdir,fchdir,fork,vfork,clone,clone3"
)
LINE = re.compile(r"(\d+) +(?:<\.\.\. \w+ resumed>)?(.*)")
UNFINISHED = " <unfinished ...>"
CALL = re.compile(r"(\w+)\((.*)\) += (\d+)(.*)")
HEX = r"((?:\\x[0-9a-f]{2})*)"
TOKEN = re.compile(rf'(?:(\d+|AT_FDCWD)<([^<>]*)>|"{HEX}")(\.\.\.)?')


def transcript_of(root: Path) -> Path:
    """Where strace writes, while the command runs, what is done below `root`."""
    return root.parent / f"{root.name}.strace"


def record(command: list[str], stdin: str, root: Path, tellings: Path) -> Recording:
    """Everything that a command and its descendants do to the files below `root`, which is empty.

    What is written to the file `tellings` is a Telling, a line each.
    """
    transcript = transcript_of(root)
    wanted = "?" + CALLS.replace(",", ",?")  # not every machine has all of them
    subprocess.run(
        [*STRACE, "-e", f"trace={wanted}", "-o", str(transcript), *command],
        input=stdin,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    listener = Listener(root, tellings)
    for line in transcript.read_text().splitlines():
        listener.hear(line)
    return listener.recording()


@dataclass
class Call:
    pid: int
    name: str
    arguments: str
    result: int
    opened: str | None
    """The path of the descriptor that it returned."""
    paths: list[str]
    """Of its descriptors and path arguments, absolute."""
    strings: list[bytes]
    began: int

    @property
    def number(self) -> int:
        """Its last argument, where that is a number."""
        return int(self.arguments.rsplit(", ", 1)[-1])


class Listener:
    """Turns strace's words into changes of a disk, and knows at every moment what is where."""

    def __init__(self, root: Path, tellings: Path) -> None:
        self._root, self._tellings = str(root), str(tellings)
        self._kinds = [DIRECTORY]
        self._names: dict[int, dict[str, int]] = {ROOT: {}}
        self._sizes: dict[int, int] = {}
        self._events: list[Change | Syncing | Telling] = []
        self._changes = 0
        self._positions: dict[tuple[int, str], int] = {}
        self._working_directories: dict[int, str] = {}
        self._unfinished: dict[int, tuple[str, int]] = {}
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()

    def hear(self, line: str) -> None:
        parts = LINE.fullmatch(line)
        assert parts, line
        pid, text = int(parts[1]), parts[2]
        began = self._changes
        if "resumed>" in line[:40]:
            start, began = self._unfinished.pop(pid)
            text = start + text
        if text.endswith(UNFINISHED):
            self._unfinished[pid] = (text.removesuffix(UNFINISHED), began)
        elif call := CALL.fullmatch(text):  # one that succeeded
            self._heard(pid, began, *call.groups())

    def _heard(self, pid: int, began: int, name: str, arguments: str, result: str, rest: str) -> None:
        opened = TOKEN.fullmatch(f"{result}{rest}")
        paths, strings = self._read(pid, arguments)
        call = Call(
            pid, name, arguments, int(result), _text(opened[2]) if opened else None, paths, strings, began
        )
        handler = HANDLERS.get(name)
        if handler is not None:
            handler(self, call)
        elif any(self._is_ours(path) for path in paths):
            raise NotImplementedError(f"{name}({arguments[:200]}")

    def _read(self, pid: int, arguments: str) -> tuple[list[str], list[bytes]]:
        paths, strings, base = [], [], ""
        for number, of_descriptor, string, cut_short in TOKEN.findall(arguments):
            assert not cut_short, "strace was told to show too little"
            if number:
                base = _text(of_descriptor)
                paths.append(base)
            else:
                strings.append(_bytes(string))
                here = base if base.startswith("/") else self._working_directories.get(pid, "/")
                paths.append(os.path.normpath(Path(here, os.fsdecode(strings[-1][:PATH_MAX_BYTES]))))
                base = ""
        return paths, strings

    # -- where things are ---------------------------------------------------------------------------

    def _is_ours(self, path: str) -> bool:
        return path == self._root or path.startswith(self._root + "/")

    def _inode(self, path: str) -> int | None:
        if not self._is_ours(path):
            return None
        inode: int | None = ROOT
        for name in path.removeprefix(self._root).split("/")[1:]:
            inode = self._names[inode].get(name) if inode in self._names else None
        return inode

    def _place(self, path: str) -> tuple[int, str]:
        above, name = os.path.split(path)
        directory = self._inode(above)
        assert directory is not None, path
        return directory, name

    def _create(self, path: str, kind: int) -> None:
        directory, name = self._place(path)
        inode = len(self._kinds)
        self._kinds.append(kind)
        if kind == DIRECTORY:
            self._names[inode] = {}
        self._sizes[inode] = 0
        self._name(directory, (name, inode))

    # -- what changes -------------------------------------------------------------------------------

    def _happened(self, change: Change) -> None:
        self._events.append(change)
        self._changes += 1

    def _name(self, directory: int, *names: tuple[str, int | None]) -> None:
        self._happened(Naming(directory, names))
        for name, inode in names:
            if inode is None:
                self._names[directory].pop(name, None)
            else:
                self._names[directory][name] = inode

    def _write(self, inode: int, offset: int, data: bytes) -> None:
        self._happened(Writing(inode, offset, data.replace(self._boot_id, OTHER_BOOT)))
        self._sizes[inode] = max(self._sizes[inode], offset + len(data))

    def _cut(self, inode: int, size: int) -> None:
        self._happened(Cutting(inode, size))
        self._sizes[inode] = size

    # -- calls --------------------------------------------------------------------------------------

    def on_open(self, call: Call) -> None:
        path = call.opened or ""
        if not self._is_ours(path):
            return
        if "O_CREAT" in call.arguments and self._inode(path) is None:
            self._create(path, FILE)
        inode = self._inode(path)
        assert inode is not None, path
        if "O_TRUNC" in call.arguments and self._sizes.get(inode):
            self._cut(inode, 0)
        is_appending = "O_APPEND" in call.arguments
        self._positions[call.pid, str(call.result)] = self._sizes[inode] if is_appending else 0

    def on_write(self, call: Call) -> None:
        if call.paths[0] == self._tellings:
            self._events.append(Telling(call.strings[0].decode().strip()))
        elif (inode := self._inode(call.paths[0])) is not None:
            self._write(inode, self._advance(call, call.arguments), call.strings[0][: call.result])

    def on_pwrite(self, call: Call) -> None:
        if (inode := self._inode(call.paths[0])) is not None:
            self._write(inode, call.number, call.strings[0][: call.result])

    def on_splice(self, call: Call) -> None:
        """What was moved is not shown: it is looked up when all is over."""
        source, offset_in, target, offset_out, *_ = call.arguments.split(", ")
        path = _text(target.partition("<")[2].partition(">")[0])
        if (inode := self._inode(path)) is not None and call.result:
            assert offset_in == offset_out == "NULL", source
            self._write(inode, self._advance(call, target), DELETED_LATER * call.result)

    def _advance(self, call: Call, descriptor: str) -> int:
        """Where its descriptor stood."""
        key = call.pid, descriptor.partition("<")[0]
        self._positions[key] += call.result
        return self._positions[key] - call.result

    def on_seek(self, call: Call) -> None:
        if self._inode(call.paths[0]) is not None:
            self._positions[call.pid, call.arguments.partition("<")[0]] = call.result

    def on_truncate(self, call: Call) -> None:
        if (inode := self._inode(call.paths[0])) is not None:
            self._cut(inode, call.number)

    def on_make_directory(self, call: Call) -> None:
        if self._is_ours(call.paths[-1]):
            self._create(call.paths[-1], DIRECTORY)

    def on_bind(self, call: Call) -> None:
        if call.strings and self._is_ours(call.paths[-1]):
            self._create(call.paths[-1], SOCKET)

    def on_remove(self, call: Call) -> None:
        if self._inode(call.paths[-1]) is not None:
            directory, name = self._place(call.paths[-1])
            self._name(directory, (name, None))

    def on_link(self, call: Call) -> None:
        old, new = self._two_paths(call)
        if (inode := self._inode(old)) is not None:
            directory, name = self._place(new)
            self._name(directory, (name, inode))

    def on_rename(self, call: Call) -> None:
        old, new = self._two_paths(call)
        inode = self._inode(old)
        if inode is None:
            return
        (left, old_name), (entered, new_name) = self._place(old), self._place(new)
        if left == entered:
            self._name(left, (old_name, None), (new_name, inode))
        else:  # two directories, two fsyncs
            self._name(entered, (new_name, inode))
            self._name(left, (old_name, None))

    def _two_paths(self, call: Call) -> tuple[str, str]:
        return call.paths[len(call.paths) // 2 - 1], call.paths[-1]

    def on_sync(self, call: Call) -> None:
        if (inode := self._inode(call.paths[0])) is not None:
            self._events.append(Syncing(inode, call.began))

    def on_change_directory(self, call: Call) -> None:
        self._working_directories[call.pid] = call.paths[-1]

    def on_fork(self, call: Call) -> None:
        """The child may have been heard of before."""
        here = self._working_directories.get(call.pid)
        if here is not None:
            self._working_directories.setdefault(call.result, here)

    # -- the end ------------------------------------------------------------------------------------

    def recording(self) -> Recording:
        """With the bytes that were spliced, as they are in the files that are left; and checked against the disk."""
        left = [
            (name, kind, content.replace(self._boot_id, OTHER_BOOT))
            for name, kind, content in real_tree(Path(self._root))
        ]
        contents = {
            self._inode(f"{self._root}/{name}"): content for name, kind, content in left if kind == FILE
        }
        events = [self._filled_in(event, contents) for event in self._events]
        recording = Recording(self._kinds, events)
        assert tree_after(recording, recording.changes()) == tuple(left), "not everything was heard"
        return recording

    def _filled_in(
        self, event: Change | Syncing | Telling, contents: dict[int | None, bytes]
    ) -> Change | Syncing | Telling:
        if not isinstance(event, Writing) or event.data.strip(DELETED_LATER) or event.inode not in contents:
            return event
        end = event.offset + len(event.data)
        return replace(event, data=contents[event.inode][event.offset : end])


HANDLERS: dict[str, Callable[[Listener, Call], None]] = {
    **dict.fromkeys(("open", "openat", "creat"), Listener.on_open),
    "write": Listener.on_write,
    "pwrite64": Listener.on_pwrite,
    "splice": Listener.on_splice,
    "lseek": Listener.on_seek,
    **dict.fromkeys(("truncate", "ftruncate"), Listener.on_truncate),
    **dict.fromkeys(("mkdir", "mkdirat"), Listener.on_make_directory),
    "bind": Listener.on_bind,
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), Listener.on_remove),
    **dict.fromkeys(("link", "linkat"), Listener.on_link),
    **dict.fromkeys(("rename", "renameat", "renameat2"), Listener.on_rename),
    **dict.fromkeys(("fsync", "fdatasync"), Listener.on_sync),
    **dict.fromkeys(("chdir", "fchdir"), Listener.on_change_directory),
    **dict.fromkeys(("fork", "vfork", "clone", "clone3"), Listener.on_fork),
}


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def _text(path: str) -> str:
    """As newer versions of strace write it, or older ones."""
    return os.fsdecode(_bytes(path)) if path.startswith("\\x") else path


# -- the disk that forgets ------------------------------------------------------------------------------

Tree = tuple[tuple[str, int, bytes], ...]
"""Path, kind and content of everything, parents before children."""


def tree_after(recording: Recording, changes: Iterable[Change]) -> Tree:
    names: dict[int, dict[str, int]] = {}
    contents: dict[int, bytearray] = {}
    for change in changes:
        match change:
            case Naming(directory, edits):
                for name, inode in edits:
                    _set_or_remove(names.setdefault(directory, {}), name, inode)
            case Writing(inode, offset, data):
                content = contents.setdefault(inode, bytearray())
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
            case Cutting(inode, size):
                content = contents.setdefault(inode, bytearray())
                content[:] = content[:size].ljust(size, b"\0")
    return tuple(_walk(recording.kinds, names, contents, ROOT, ""))


def _set_or_remove(names: dict[str, int], name: str, inode: int | None) -> None:
    if inode is None:
        names.pop(name, None)
    else:
        names[name] = inode


def _walk(
    kinds: list[int],
    names: dict[int, dict[str, int]],
    contents: dict[int, bytearray],
    directory: int,
    above: str,
) -> Iterator[tuple[str, int, bytes]]:
    for name, inode in sorted(names.get(directory, {}).items()):
        yield f"{above}{name}", kinds[inode], bytes(contents.get(inode, b""))
        if kinds[inode] == DIRECTORY:
            yield from _walk(kinds, names, contents, inode, f"{above}{name}/")


def real_tree(root: Path, above: str = "") -> Iterator[tuple[str, int, bytes]]:
    for path in sorted(root.iterdir()):
        kind = stat.S_IFMT(path.lstat().st_mode)
        yield f"{above}{path.name}", kind, path.read_bytes() if kind == FILE else b""
        if kind == DIRECTORY:
            yield from real_tree(path, f"{above}{path.name}/")


def materialise(tree: Tree, root: Path) -> None:
    root.mkdir(mode=0o700)
    for name, kind, content in tree:
        path = root / name
        if kind == DIRECTORY:
            path.mkdir(mode=0o700)
        elif kind == SOCKET:
            os.mknod(path, SOCKET | 0o600)
        else:
            path.write_bytes(content)


# -- the moments ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The power failed, and this is what was on the disk."""

    changes: tuple[Change, ...]
    told: tuple[str, ...]
    """Up to then: the later the moment, the more has been promised."""
    moment: int


def cuts(recording: Recording, samples: int, seed: int) -> list[Cut]:
    """After every event: of what was not yet synced every beginning, and `samples` random parts. Each disk once."""
    found: dict[Tree, Cut] = {}
    for cut in _all_cuts(recording, samples, random.Random(seed)):
        found[tree_after(recording, cut.changes)] = cut  # the last moment is the strictest
    return list(found.values())


def _all_cuts(recording: Recording, samples: int, rng: random.Random) -> Iterator[Cut]:
    changes: list[Change] = []
    safe: set[int] = set()
    told: list[str] = []
    for moment, event in enumerate(recording.events):
        first = 0
        match event:
            case Telling(words):
                told.append(words)
            case Syncing(inode, began):
                safe.update(n for n in range(began) if changes[n].inode == inode)
            case _:
                first = len(changes) - len(safe) + 1  # shorter beginnings were tried a moment ago
                changes.append(event)
        open_ones = [n for n in range(len(changes)) if n not in safe]
        kept = {n: changes[n] for n in safe}
        beginnings = [{n: changes[n] for n in open_ones[:k]} for k in range(first, len(open_ones) + 1)]
        parts = [_part({n: changes[n] for n in open_ones}, rng) for _ in range(samples)]
        for chosen in beginnings + parts:
            whole = kept | chosen
            yield Cut(tuple(whole[n] for n in sorted(whole)), tuple(told), moment)


Changes = dict[int, Change]


def _part(changes: Changes, rng: random.Random) -> Changes:
    forget = rng.choice((_lose_bytes, _shorten_files, _leave_zeros, _lose_anything))
    return forget(changes, rng)


def _lose_bytes(changes: Changes, rng: random.Random) -> Changes:
    """Every name, no content: empty files."""
    return {n: change for n, change in changes.items() if isinstance(change, Naming)}


def _shorten_files(changes: Changes, rng: random.Random) -> Changes:
    """Every name, and of some files only the beginning."""
    kept: Changes = {}
    ended: set[int] = set()
    for n, change in changes.items():
        if change.inode in ended:
            continue
        if isinstance(change, Writing) and rng.random() < 0.4:
            ended.add(change.inode)
            change = _torn(change, rng)
        kept[n] = change
    return kept


def _leave_zeros(changes: Changes, rng: random.Random) -> Changes:
    """Every name and every length, but not every byte."""
    return {n: zeroed(change) if rng.random() < 0.4 else change for n, change in changes.items()}


def zeroed(change: Change) -> Change:
    return replace(change, data=bytes(len(change.data))) if isinstance(change, Writing) else change


def _lose_anything(changes: Changes, rng: random.Random) -> Changes:
    share = rng.choice((0.2, 0.5, 0.8, 0.95))
    return {
        n: _torn(change, rng) if isinstance(change, Writing) and rng.random() < 0.1 else change
        for n, change in changes.items()
        if rng.random() < share
    }


def _torn(change: Writing, rng: random.Random) -> Writing:
    return replace(change, data=change.data[: rng.randrange(len(change.data) + 1)])
