"""The log on disk: what the writer writes and readers may rely on.

    log/<offset>        output as it came, stdout and stderr in one order; the name is the absolute
                        offset of its first byte, 20 digits, so that names sort as numbers
    log/<offset>.runs   which stream wrote it, and when: one HEADER, then a RUN wherever the stream
                        changes or 10 ms have passed

A run is written before its bytes: no byte is ever without a stream. Offsets count every byte the job
ever printed and never change. Where one segment does not begin where the one before it ends, the bytes
between were dropped; the HEADERs on both sides tell how many of each stream.
"""

from struct import Struct

STDOUT, STDERR = 1, 2
HEADER = Struct("<QQ")  # bytes of stdout, bytes of stderr before this segment, dropped ones included
RUN = Struct("<QQ")  # absolute offset; microseconds since the epoch << 8 | stream
RUN_RESOLUTION_US = 10_000
RUNS_SUFFIX = ".runs"


def segment_name(offset: int) -> str:
    return f"{offset:020d}"
