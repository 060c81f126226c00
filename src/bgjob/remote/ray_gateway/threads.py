"""Calls of Ray that block, beside the event loop of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MOST_CALLS = 32


class Threads:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MOST_CALLS)

    async def run(self, call: Callable[..., Any], *words: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *words)
