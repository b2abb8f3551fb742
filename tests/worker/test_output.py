"""What of a process's output is told: all of it while it is little, and never much of it."""

from __future__ import annotations

from npumond.worker.output import BURST, MAX_LINE, REFILL_S, Output


def test_a_few_lines_are_told_as_they_stand() -> None:
    """Without blanks at the ends, and without lines that are empty."""
    assert list(Output().lines(b"one\n\n  two \nthree", 0.0)) == ["one", "two", "three"]


def test_of_a_flood_a_burst_is_told() -> None:
    assert list(Output().lines(b"again\n" * 1000, 0.0)) == ["again"] * BURST


def test_after_a_flood_a_line_a_second_is_told_with_what_was_left_out() -> None:
    """The measure is in bytes, and it begins anew once it is told."""
    output = Output()
    list(output.lines(b"again\n" * (BURST + 10), 0.0))
    assert list(output.lines(b"later\nmore\n", REFILL_S)) == ["later (after 60 bytes that are not told)"]
    assert list(output.lines(b"last\n", 2 * REFILL_S)) == ["last (after 5 bytes that are not told)"]


def test_a_line_without_an_end_is_cut() -> None:
    """What cannot be decoded is replaced."""
    (line,) = Output().lines(b"\xff" * (1 << 16), 0.0)
    assert line == "\ufffd" * MAX_LINE
