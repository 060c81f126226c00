"""Pieces of one stream, oldest first: cut from either side, joined, and merged with notes."""

from collections.abc import Iterable, Iterator

from bgjob.output.log_reader import Piece
from bgjob.output.text import Part


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


def up_to(pieces: Iterable[Piece], most: int) -> list[Piece]:
    taken: list[Piece] = []
    for piece in pieces:
        if len(piece.data) >= most:
            return [*taken, Piece(piece.start, piece.data[:most])]
        taken.append(piece)
        most -= len(piece.data)
    return taken


def down_to(pieces: Iterator[Piece], most: int) -> list[Piece]:
    taken: list[Piece] = []
    for piece in pieces:
        if len(piece.data) >= most:
            taken.append(Piece(piece.end - most, piece.data[len(piece.data) - most :]))
            break
        taken.append(piece)
        most -= len(piece.data)
    return taken[::-1]


def joined(pieces: Iterable[Piece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def size_of(pieces: list[Piece]) -> int:
    return sum(len(piece.data) for piece in pieces)
