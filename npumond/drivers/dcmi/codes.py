"""Return codes of DCMI in words and in the classes that a reader can act on.

Source: reference dcmi.md, section 5 (the vendor's header and return-code page).
"""

from __future__ import annotations

from npumond.model import OutcomeKind

OK = 0
NOT_SUPPORT = -8255
DEVICE_NOT_EXIST = -8008

_MEANINGS: dict[int, tuple[OutcomeKind, str]] = {
    -8001: ("unsupported", "the driver does not know this argument"),
    -8002: ("denied", "not permitted: needs root, or is not possible in this container or split chip"),
    -8003: ("error", "a memory function failed in the library"),
    -8004: ("error", "a string function failed in the library"),
    -8005: ("error", "inner error of the library"),
    -8006: ("timeout", "the chip did not answer in time"),
    -8007: ("not_ready", "the device id is not known any more"),
    -8008: ("not_ready", "the device does not exist (any more)"),
    -8009: ("fault", "ioctl to the chip failed"),
    -8010: ("fault", "the message to the chip was not sent"),
    -8011: ("fault", "no valid reply from the chip"),
    -8012: ("not_ready", "the chip is booting, resetting or lost"),
    -8013: ("denied", "not possible in a container, or the device is busy"),
    -8014: ("error", "file access failed in the library"),
    -8015: ("error", "reset failed"),
    -8016: ("error", "aborted"),
    -8017: ("busy", "firmware is being upgraded"),
    -8020: ("busy", "the device is used by another container"),
    -8022: ("error", "firmware partitions are inconsistent"),
    -8023: ("unsupported", "nothing is configured"),
    NOT_SUPPORT: ("unsupported", "not supported by this chip or driver"),
}


def kind_of(code: int) -> OutcomeKind:
    """The class of a return code; a code that the reference does not know is an ``error``."""
    return "ok" if code == OK else _MEANINGS.get(code, ("error", ""))[0]


def meaning_of(code: int) -> str:
    """``-8020: the device is used by another container``."""
    return f"{code}: {_MEANINGS.get(code, ('error', 'unknown code'))[1]}"
