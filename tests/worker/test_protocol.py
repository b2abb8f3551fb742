"""What daemon and worker say survives any chopping of the stream, and garbage is an error and no crash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npumond.errors import WorkerError
from npumond.model import CallOutcome, DeviceRound, DriverFacts, PhyId, Reading
from npumond.worker.protocol import MAX_FRAME, Hello, Message, OpenFailed, Read, RoundDone, encode, reader
from tests.worker.scripted import device

MESSAGES: tuple[Message, ...] = (
    Read("fast", (PhyId(0), PhyId(7))),
    Hello(DriverFacts(backend="dcmi", api="v1", library="libdcmi.so", devices=(device(0), device(1)))),
    OpenFailed("no library", -8005, ("a: not there",)),
    RoundDone(
        DeviceRound(
            PhyId(3),
            "slow",
            12.5,
            (CallOutcome("dcmi_x[1]", "ok", 0, 0.25, (Reading("field", 739.0, ("1",)), Reading("other", -1.0))),),
            ("dcmi_y",),
        )
    ),
)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=200))
def test_messages_come_out_as_they_went_in_however_the_stream_is_cut(cuts: list[int]) -> None:
    stream = b"".join(encode(message) for message in MESSAGES)
    frames_in = reader()
    received: list[Message] = []
    position = 0
    for cut in (*cuts, len(stream)):
        received += frames_in.feed(stream[position : position + cut])
        position += cut
    assert tuple(received) == MESSAGES


@given(st.binary(max_size=300))
def test_garbage_is_an_error_of_ours_or_waits_for_more(data: bytes) -> None:
    frames_in = reader()
    try:
        messages = list(frames_in.feed(data))
    except WorkerError:
        return
    assert all(isinstance(message, Read | Hello | OpenFailed | RoundDone) for message in messages)


def test_a_frame_that_claims_to_be_huge_is_refused_before_it_is_buffered() -> None:
    with pytest.raises(WorkerError, match=f"the most is {MAX_FRAME}"):
        list(reader().feed(b"\xff\xff\xff\xff"))
