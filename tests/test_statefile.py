"""Alerts survive a restart, and a file that is broken or cannot be written costs nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from npumond.latest import Latest
from npumond.model import Sample, Snapshot
from npumond.rules import Board, Memory, Rule, RuleState, board, evaluate
from npumond.statefile import EVERY_S, StateFile

RULE = Rule(name="Hot", metric="npu_temperature_celsius", op=">", threshold=85, for_s=30, severity="warning")


def judged(celsius: float, at: float, before: RuleState | None = None) -> RuleState:
    families = {"npu_temperature_celsius": (Sample("npu_temperature_celsius", ("0",), celsius),)}
    state, _ = evaluate((RULE,), before or RuleState(), Snapshot(at=at, wall_at=1000.0 + at, families=families))
    return state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.json"


def test_what_was_saved_is_loaded(path: Path) -> None:
    state = judged(90, 5.0)
    memory = Memory(state=state, ended=state.alerts)
    StateFile(path).save(memory)
    assert StateFile(path).load() == memory
    assert state.alerts


def test_without_a_file_there_is_nothing(path: Path) -> None:
    assert StateFile(path).load() is None


BROKEN = (
    b"",
    b"{",
    b"[]",
    b'{"format": 99, "memory": {"state": {}}}',
    b'{"format": 1, "memory": {"state": {"alerts": 5}}}',
)


@pytest.mark.parametrize("content", BROKEN)
def test_a_file_that_cannot_be_used_is_set_aside(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert StateFile(path).load() is None
    assert not path.exists()
    assert path.with_suffix(".unreadable").read_bytes() == content


def test_a_place_that_cannot_be_written_is_counted_and_not_raised(path: Path) -> None:
    path.mkdir()
    (path / "occupied").touch()
    file = StateFile(path)
    file.save(Memory(state=RuleState()))
    file.save(Memory(state=RuleState()))
    assert file.failures == 2


def test_a_failed_write_leaves_the_old_file(path: Path) -> None:
    file = StateFile(path)
    file.save(Memory(state=judged(90, 5.0)))
    before = path.read_bytes()
    path.with_suffix(".new").mkdir()
    file.save(Memory(state=judged(50, 6.0)))
    assert path.read_bytes() == before


async def test_it_is_written_when_an_alert_changes_and_while_clocks_run(path: Path) -> None:
    """Not with every snapshot."""
    boards: Latest[Board] = Latest()
    states = [judged(50, 0.0), judged(90, 1.0)]
    states += [judged(90, at, states[1]) for at in (2.0, 1.0 + EVERY_S)]
    written: list[float] = []

    class Counting(StateFile):
        def save(self, memory: Memory) -> None:
            written.append(memory.state.at)

    task = asyncio.create_task(Counting(path).follow(boards, lambda: Memory(state=current[0])))
    current = [states[0]]
    for state in states:
        current[0] = state
        boards.set(replace(board((RULE,), state), at=state.at))
        for _ in range(50):
            await asyncio.sleep(0.001)
    task.cancel()
    assert written == [1.0, 1.0 + EVERY_S]
