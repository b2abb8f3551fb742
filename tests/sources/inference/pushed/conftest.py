"""What comes in by the network is tested on the loop that the daemon runs on."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

import pytest
import uvloop


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], AbstractEventLoop]]:
    """uvloop, where pytest-asyncio is new enough to be told."""
    return {"uvloop": uvloop.new_event_loop}
