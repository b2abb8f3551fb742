"""Fault codes: the rows of the reference, and the fields of a code word."""

from __future__ import annotations

import pytest

from npumond.faults import FAULTS, FaultSeverity, FaultWord, decode, describe, normalized, severity


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("80E18402", "critical"),  # Separate
        ("80E18005", "critical"),  # RestartNPU
        ("8C084E00", "critical"),  # FreeRestartNPU
        ("80E01801", "major"),  # RestartBusiness
        ("80C98008", "major"),  # RestartRequest
        ("80E20207", "minor"),  # SubHealth
        ("80E00209", "notice"),  # NotHandle
        ("81A38605", "unknown"),  # the vendor lists no level
        ("80FFFFFF", "unknown"),
        ("no code", "unknown"),
    ],
)
def test_severity_follows_what_the_vendor_does_about_the_code(code: str, expected: FaultSeverity) -> None:
    """One code of each level of handling."""
    assert severity(code) == expected


@pytest.mark.parametrize("written", ["80e01801", "0x80E01801", "0X80e01801", 0x80E01801])
def test_a_code_is_known_however_it_is_written(written: str | int) -> None:
    """The driver gives numbers, the tools give text with and without 0x."""
    assert normalized(written) == "80E01801"
    assert severity(written) == "major"


def test_the_fields_of_the_word_are_those_of_the_reference() -> None:
    """Section 11.1, the example of each row."""
    assert decode("80E01801") == FaultWord(kind=8, node_type=0x070, sensor=0x0C, state=0x001)


@pytest.mark.parametrize(
    ("code", "kind", "node_type", "sensor"),
    [
        ("80C98008", 8, 0x64, 0xC0),
        ("80CB8008", 8, 0x65, 0xC0),
        ("80E24E00", 8, 0x71, 0x27),
        ("81078603", 8, 0x83, 0xC3),
        ("81A38605", 8, 0xD1, 0xC3),
        ("40F84E00", 4, 0x7C, 0x27),
        ("8C2FA001", 8, 0x617, 0xD0),
    ],
)
def test_known_codes_decode_to_the_parts_that_the_reference_names(
    code: str, kind: int, node_type: int, sensor: int
) -> None:
    """The split was derived from the codes, so the codes must bear it out."""
    assert decode(code)[:3] == (kind, node_type, sensor)


def test_a_known_code_is_described_by_part_and_meaning() -> None:
    """One line for people."""
    assert describe("80E0020B") == "HBM: over-temperature, fatal"


def test_an_unlisted_code_is_described_by_its_fields() -> None:
    """Better than a bare number, and no claim about how bad it is."""
    assert describe("80E00299") == "HBM: unlisted temperature code, state 153"
    assert describe("80020001") == "node type 0x1: unlisted sensor 0x0 code, state 1"


@pytest.mark.parametrize("code", ["", "hang", "200001002", "-1"])
def test_what_is_no_code_is_said_to_be_none(code: str) -> None:
    """The management software makes up codes of more than 32 bits."""
    assert describe(code) == "not a fault code"
    with pytest.raises(ValueError, match=r"fault code|invalid literal"):
        normalized(code)


def test_every_row_is_written_as_the_label_shows_it() -> None:
    """Eight upper-case digits, once each."""
    assert all(code == normalized(code) == fault.code for code, fault in FAULTS.items())
    assert len(FAULTS) == 41
