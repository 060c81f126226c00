"""A copy of jobs that is kept by the news of an agent: as a near end would keep it, in a few lines."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bgjob.agent.log_news import LogPieces
from bgjob.remote.channel import Channel
from bgjob.remote.codec import unpack_bytes


def write_piece(path: Path, at: int, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert path.stat().st_size >= at, "a piece leaves a hole"
    with path.open("r+b") as file:
        file.truncate(at)
        file.seek(at)
        file.write(data)


def write_pieces(directory: Path, new: LogPieces) -> None:
    for piece in new.pieces:
        write_piece(directory / piece.name, piece.at, piece.data)
    for name in new.gone:
        (directory / name).unlink()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()} if directory.is_dir() else {}


class Replica:
    """Of several jobs, in a directory."""

    def __init__(self, channel: Channel, place: Path) -> None:
        self._channel, self.place = channel, place
        self.cursor: str | None = None
        self.looked: dict[str, int] = {}
        self.events: list[Mapping[str, Any]] = []
        self.told: dict[str, dict[str, Any]] = {}
        """Of each job, the records and words of the news."""

    async def follow(self, job_id: str) -> None:
        log = self.place / job_id / "log"
        have = {f"log/{name}": len(data) for name, data in contents(log).items()}
        self.told.pop(job_id, None)  # what was told before is told again
        await self._channel.call("follow", job=job_id, have=have)

    async def take(self, timeout_s: float = 30.0, most_bytes: int = 1 << 16) -> None:
        news = await self._channel.call("news", since=self.cursor, timeout_s=timeout_s, most_bytes=most_bytes)
        self.cursor = news["cursor"]
        self.events += news["events"]
        self.looked |= news["looked"]
        for job_id, new in news["jobs"].items():
            self._write(job_id, new)

    async def take_until(self, word: str, job_ids: Iterable[str], most_bytes: int = 1 << 16) -> None:
        wanted = set(job_ids)
        while not all(word in self.told.get(job_id, {}) for job_id in wanted):
            await self.take(most_bytes=most_bytes)

    def log(self, job_id: str) -> Path:
        return self.place / job_id / "log"

    def _write(self, job_id: str, new: Mapping[str, Any]) -> None:
        told = self.told.setdefault(job_id, {})
        assert "outcome.json" not in told or "outcome.json" not in new.get("records", {})
        for piece in new.get("files", ()):
            write_piece(self.place / job_id / piece["name"], piece["at"], unpack_bytes(piece["data"]))
        for name in new.get("gone", ()):
            (self.place / job_id / name).unlink()
        told |= new.get("records", {})
        told |= {word: new[word] for word in ("over", "lost", "missing") if word in new}
