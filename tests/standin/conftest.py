"""Compiled stand-ins and processes that have them loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.standin.build import StandIn, build
from tests.standin.client import Probe, Start
from tests.standin.scenario import Scenario


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., StandIn]:
    """Compiles stand-ins into one place for the whole run."""
    place = tmp_path_factory.getbasetemp().parent / "standin"
    build(place)
    return lambda **options: build(place, **options)


@pytest.fixture
def start(tmp_path: Path, built: Callable[..., StandIn]) -> Iterator[Start]:
    """Starts processes with libdcmi.so (or another of the libraries) in a scenario at tmp_path/scenario."""
    probes: list[Probe] = []

    def run(scenario: Scenario, *, init: str | None = "", library: str = "dcmi", **options: Any) -> Probe:
        env = options.pop("env", {})
        scenario.write(tmp_path / "scenario")
        probe = Probe(getattr(built(**options), library), tmp_path / "scenario", **env)
        probes.append(probe)
        if init is not None and library == "dcmi":
            name = init or ("dcmi_init" if scenario.api == 1 else "dcmiv2_init")
            assert probe.call(name).rc == 0
        return probe

    yield run
    for probe in probes:
        probe.close()
