"""Buffers are clean before a call, and what is written beside them is seen."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_ubyte, c_uint64

import pytest

from npumond.drivers.dcmi.structures import dcmi_ecc_info, dcmi_hbm_info
from npumond.drivers.guarded import AFTER, BEFORE, Arena


def write(address: int, data: bytes) -> None:
    """As a C library would."""
    ctypes.memmove(address, data, len(data))


def test_an_untouched_guard_is_silent() -> None:
    """Filling a buffer to its last byte is what it is there for."""
    arena = Arena()
    out = arena.take(dcmi_hbm_info)
    write(ctypes.addressof(out), b"\xff" * 32)

    assert arena.check() == ""


@pytest.mark.parametrize("extra", [1, 8, len(AFTER)])
def test_a_larger_structure_than_ours_is_seen(extra: int) -> None:
    """The message says by how much."""
    arena = Arena()
    out = arena.take(dcmi_hbm_info)
    write(ctypes.addressof(out), b"\xff" * (32 + extra))

    assert arena.check() == f"wrote {extra} bytes beyond the 32 of dcmi_hbm_info"


def test_zeros_behind_a_buffer_are_seen_too() -> None:
    """The pattern is not one that libraries write."""
    arena = Arena()
    out = arena.take(c_int)
    write(ctypes.addressof(out), b"\0" * 8)

    assert arena.check() == "wrote 4 bytes beyond the 4 of c_int"


def test_writing_before_a_buffer_is_seen() -> None:
    """A wrong pointer of the library's."""
    arena = Arena()
    out = arena.take(c_int)
    write(ctypes.addressof(out) - 4, b"\0" * 4)

    assert arena.check() == "wrote before the 4 bytes of c_int"


def test_room_is_granted_where_a_newer_driver_needs_it() -> None:
    """36 bytes of ECC counts into a structure of 28."""
    arena = Arena()
    out = arena.take(dcmi_ecc_info, room=64)
    write(ctypes.addressof(out), b"\xff" * 36)

    assert arena.check() == ""


def test_each_buffer_of_a_call_has_its_own_guards() -> None:
    """A count that runs into the list behind it."""
    arena = Arena()
    arena.take(c_ubyte * 100)
    count = arena.take(c_int)
    arena.take(c_ubyte * 100)
    write(ctypes.addressof(count), b"\0" * 16)

    assert arena.check() == "wrote 12 bytes beyond the 4 of c_int"


def test_the_next_call_finds_clean_buffers_and_whole_guards() -> None:
    """Nothing of one answer is ever read as another, and one overrun is reported once."""
    arena = Arena()
    write(ctypes.addressof(arena.take(dcmi_hbm_info)), b"\xff" * 64)
    arena.check()

    assert bytes(arena.take(dcmi_hbm_info)) == bytes(32)
    assert arena.check() == ""


def test_buffers_are_aligned_for_any_of_their_members() -> None:
    """Some machines insist."""
    arena = Arena()
    addresses = [ctypes.addressof(arena.take(kind)) for kind in (c_ubyte * 3, c_int, c_uint64, dcmi_hbm_info)]

    assert [address % 16 for address in addresses] == [0, 0, 0, 0]


def test_the_largest_call_fits() -> None:
    """128 process records and a count; more than an arena has is a mistake in the table."""
    arena = Arena()
    arena.take(c_ubyte * 2048)
    arena.take(c_int)

    with pytest.raises(ValueError, match="no room for 16384 bytes"):
        arena.take(c_ubyte * 16384)
    assert len(BEFORE) >= 256
