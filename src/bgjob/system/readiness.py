"""Whether a descriptor becomes readable in time. By poll: select takes fewer descriptors."""

import select


def is_readable(fd: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1000))
