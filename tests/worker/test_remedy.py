"""When a worker is replaced and what its successor leaves alone, decided on paper."""

from __future__ import annotations

from npumond.model import PhyId
from npumond.worker.protocol import Busy
from npumond.worker.remedy import FIRST_QUARANTINE_S, LAST_QUARANTINE_S, Quarantine, successor_is_better


def hung(device: int, call: str) -> Busy:
    return Busy(PhyId(device), "fast", call, 6.0)


def test_a_call_that_hangs_is_left_alone_twice_as_long_each_time() -> None:
    quarantine = Quarantine()
    lengths = []
    now = 1000.0
    for _ in range(7):
        quarantine.strike((hung(3, "a"),), now)
        (left,) = quarantine.active(now)
        lengths.append(left.for_s)
        now += left.for_s
    assert lengths[:3] == [FIRST_QUARANTINE_S, 2 * FIRST_QUARANTINE_S, 4 * FIRST_QUARANTINE_S]
    assert lengths[-1] == LAST_QUARANTINE_S


def test_a_device_on_which_another_call_hangs_too_is_not_cured_by_a_new_worker() -> None:
    quarantine = Quarantine()
    quarantine.strike((hung(3, "a"),), 0.0)
    both = (hung(3, "b"), hung(4, "a"))
    assert quarantine.curable(both, 1.0) == (hung(4, "a"),)
    assert quarantine.curable(both, FIRST_QUARANTINE_S + 1) == both


def test_a_clean_record_is_forgotten() -> None:
    quarantine = Quarantine()
    quarantine.strike((hung(3, "a"),), 0.0)
    assert quarantine.active(10_000.0) == ()
    quarantine.strike((hung(3, "a"),), 10_000.0)
    assert [left.for_s for left in quarantine.active(10_000.0)] == [FIRST_QUARANTINE_S]


def test_a_successor_must_read_something_and_lose_nothing() -> None:
    assert not successor_is_better((), ())
    one, two, three = map(PhyId, (1, 2, 3))
    assert not successor_is_better((one, two), (one, three))
    assert successor_is_better((one, two, three), (one, three))
