"""The compiled stand-in, and runs of the daemon that several tests look at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.e2e.hosts import Observed, host, observe
from tests.standin.build import StandIn, build


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """The stand-in's libraries and tool."""
    return build(tmp_path_factory.getbasetemp().parent / "standin")


@pytest.fixture(scope="session")
def observed(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Observed]:
    """What a run on a host showed, by the host's name; each host is run once."""
    return cache(lambda name: observe(tmp_path_factory.mktemp("run"), standin, host(name)))
