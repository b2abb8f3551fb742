"""The newest value for any number of readers, never a queue."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from npumond.latest import Latest


def test_there_is_nothing_before_the_first_value() -> None:
    """A reader that does not wait sees None, and version 0."""
    latest: Latest[str] = Latest()

    assert (latest.get(), latest.version) == (None, 0)


async def test_a_value_that_is_there_is_given_at_once() -> None:
    """Waiting for something newer than nothing does not wait when there is something."""
    latest: Latest[str] = Latest()
    latest.set("a")

    assert await latest.changed() == (1, "a")


async def test_all_readers_wake() -> None:
    """One `set` wakes every reader that waits, with the same value."""
    latest: Latest[str] = Latest()
    readers = [asyncio.create_task(latest.changed()) for _ in range(64)]
    await asyncio.sleep(0)

    latest.set("a")

    assert await asyncio.gather(*readers) == [(1, "a")] * 64


async def test_a_slow_reader_skips_to_the_newest() -> None:
    """What was replaced before a reader came back is never seen by it."""
    latest: Latest[int] = Latest()
    latest.set(1)
    version, _ = await latest.changed()
    for value in (2, 3, 4):
        latest.set(value)

    assert await latest.changed(version) == (4, 4)


async def test_several_values_before_a_woken_reader_runs_give_the_newest() -> None:
    """A reader that was woken by the first of two values sees the second when it gets to run."""
    latest: Latest[int] = Latest()
    reader = asyncio.create_task(latest.changed())
    await asyncio.sleep(0)

    latest.set(1)
    latest.set(2)

    assert await reader == (2, 2)


async def test_a_value_equal_to_the_one_before_wakes_too() -> None:
    """Two rounds that read the same are still two rounds."""
    latest: Latest[int] = Latest()
    latest.set(1)
    reader = asyncio.create_task(latest.changed(1))
    await asyncio.sleep(0)

    latest.set(1)

    assert await reader == (2, 1)


async def test_iteration_ends_with_the_newest_value_whatever_the_interleaving() -> None:
    """No wake-up is lost: a reader that yields at odd moments still reaches the last value."""
    latest: Latest[int] = Latest()
    seen: list[int] = []

    async def read(pauses: int) -> None:
        async for value in latest:
            seen.append(value)
            for _ in range(pauses):
                await asyncio.sleep(0)
            if value == 99:
                return

    readers = [asyncio.create_task(read(pauses)) for pauses in range(5)]
    for value in range(100):
        latest.set(value)
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await asyncio.gather(*readers)

    assert seen.count(99) == 5


async def test_a_reader_sees_values_in_order_and_none_twice() -> None:
    """Skipping is allowed, going back is not."""
    latest: Latest[int] = Latest()
    seen: list[int] = []

    async def read() -> None:
        async for value in latest:
            seen.append(value)
            await asyncio.sleep(0)

    reader = asyncio.create_task(read())
    for value in range(50):
        latest.set(value)
        await asyncio.sleep(0)
    reader.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reader

    assert seen == sorted(set(seen))


async def test_a_cancelled_reader_leaves_the_others_alone() -> None:
    """Readers share one wake-up; taking one away must not take it from the rest."""
    latest: Latest[int] = Latest()
    gone, stays = (asyncio.create_task(latest.changed()) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()

    latest.set(7)

    assert await stays == (1, 7)
    with pytest.raises(asyncio.CancelledError):
        await gone
