"""Pieces of one stream, oldest first: cut from either side, joined, and merged with notes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from bgjob.core.frozen import replace
from bgjob.output.log_reader import Piece
from bgjob.output.text import Part, head_cut, tail_cut

P = TypeVar("P", bound=Piece)


def merge(begun: bytes, pieces: list[Piece], notes: list[tuple[int, Part]]) -> list[Part]:
    """All parts in the order of the log. Neighbouring bytes are joined, so that no character is torn."""
    placed: list[tuple[int, int, Part]] = [(at, 0, note) for at, note in notes]
    placed += [(piece.start, 1, piece.data) for piece in pieces]
    parts: list[Part] = [begun] if begun else []
    for _, _, part in sorted(placed, key=lambda place: place[:2]):
        last = parts[-1] if parts else None
        if isinstance(part, bytes) and isinstance(last, bytes):
            parts[-1] = last + part
        else:
            parts.append(part)
    return parts


def up_to(pieces: Iterable[P], most: int) -> list[P]:
    taken: list[P] = []
    for piece in pieces:
        if len(piece.data) >= most:
            return [*taken, replace(piece, data=piece.data[:most])]
        taken.append(piece)
        most -= len(piece.data)
    return taken


def down_to(pieces: Iterator[P], most: int) -> list[P]:
    """The pieces are newest first."""
    taken: list[P] = []
    for piece in pieces:
        if len(piece.data) >= most:
            last = piece.data[len(piece.data) - most :]
            taken.append(replace(piece, start=piece.end - most, data=last))
            break
        taken.append(piece)
        most -= len(piece.data)
    return taken[::-1]


def cut_head(pieces: list[P]) -> list[P]:
    return up_to(pieces, head_cut(joined(pieces)))


def cut_tail(pieces: list[P]) -> list[P]:
    data = joined(pieces)
    return down_to(reversed(pieces), len(data) - tail_cut(data))


def joined(pieces: Iterable[Piece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def size_of(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.data) for piece in pieces)
