"""Pauses between tries double, up to a cap."""

from __future__ import annotations

from npumond.pause import Pause


def test_a_pause_doubles_to_its_cap_and_begins_anew_after_a_good_spell() -> None:
    pause = Pause(1.0, 5.0)
    lengths = [pause.begin(0.0) for _ in range(4)]
    pause.reset()
    assert [*lengths, pause.begin(0.0)] == [1.0, 2.0, 4.0, 5.0, 1.0]


def test_a_pause_is_over_when_its_time_has_passed() -> None:
    pause = Pause(2.0, 2.0)
    assert pause.over(100.0)
    pause.begin(100.0)
    assert (pause.over(101.9), pause.over(102.0)) == (False, True)
