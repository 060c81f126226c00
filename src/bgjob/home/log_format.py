"""The log on disk: what the writer writes and readers may rely on.

    log/<offset>        output as it came, stdout and stderr in one order; the name is the absolute
                        offset of its first byte, 20 digits, so that names sort as numbers
    log/<offset>.runs   which stream wrote it, and when: one HEADER, then a RUN wherever the stream
                        changes or 10 ms have passed
    log/<offset>.stdout, log/<offset>.stderr
                        what is kept of one stream where segments were deleted: one HEADER, then PIECEs, each
                        followed by its bytes. It is a stretch of that stream without a hole; the name is the
                        offset of its first byte

A run is written before its bytes: no byte is ever without a stream. Offsets count every byte the job ever
printed and never change. Where one segment does not begin where the one before it ends, the bytes between
were dropped, except for what is kept of either stream; the HEADERs tell how many of each stream lie before
them. A kept piece counts only in such a gap: where the segment is still whole, the piece is a copy in the
making.
"""

from struct import Struct

STDOUT, STDERR = 1, 2
# Bytes of stdout and of stderr before this segment, dropped bytes included.
HEADER = Struct("<QQ")
# Absolute offset; microseconds since the epoch << 8 | stream.
RUN = Struct("<QQ")
RUN_RESOLUTION_US = 10_000
RUNS_SUFFIX = ".runs"
# Absolute offset; the second number of its run; how many bytes follow.
PIECE = Struct("<QQQ")
# How much of an unfinished last line is read as a prompt.
PROMPT_BYTES = 500
KEPT_SUFFIXES = {STDOUT: ".stdout", STDERR: ".stderr"}


def segment_name(offset: int) -> str:
    return f"{offset:020d}"


def pieces_of(data: bytes) -> list[tuple[int, int, int, int]]:
    """(offset, second number of its run, position in data, length) of each piece of a kept stream.

    A piece that does not fit the one before it is a torn end, or not ours: the list ends there.
    """
    found = []
    at, least = HEADER.size, 0
    while at + PIECE.size < len(data):
        offset, stamp, length = PIECE.unpack_from(data, at)
        at += PIECE.size
        if not length or offset < least or at + length > len(data):
            break
        found.append((offset, stamp, at, length))
        at, least = at + length, offset + length
    return found
