"""Fault codes of the chip: what a code says, how bad it is, and the fields of its word.

Source: ``reference/dcmi.md`` section 11. A code is an unsigned 32-bit number written as eight hexadecimal digits.
``npu-smi info -t health`` and ``dcmi_get_device_errorcode_v2`` give the codes that are active.

Why a table of our own: the driver's text for a code (``dcmi_get_device_errorcode_string``) has no severity. The
severity that a real fault event carries is the chip's own word and wins over this table.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

FaultSeverity = Literal["notice", "minor", "major", "critical", "unknown"]
"""The driver's four levels (reference, section 7: 0 notice to 3 critical), and ``unknown`` for codes without a row."""

Level = Literal[
    "NotHandle",
    "SubHealth",
    "RestartRequest",
    "RestartBusiness",
    "FreeRestartNPU",
    "RestartNPU",
    "PreSeparate",
    "Separate",
    "",
]
"""What the vendor's device plugin does about a code by default; empty where it lists none. Policy that changes between
releases, not a law of the chip."""

SEVERITY_OF_LEVEL: dict[Level, FaultSeverity] = {
    "NotHandle": "notice",  # nobody has to act
    "SubHealth": "minor",  # works, but less well
    "RestartRequest": "major",  # a request or the whole job is lost, the chip goes on
    "RestartBusiness": "major",
    "FreeRestartNPU": "critical",  # the chip needs a reset, or must leave the pool
    "RestartNPU": "critical",
    "PreSeparate": "critical",
    "Separate": "critical",
    "": "unknown",
}


class Fault(Struct, frozen=True):
    """One known code."""

    code: str
    """Eight upper-case hexadecimal digits."""
    part: str
    """The part of the chip or of its software that reports."""
    meaning: str
    level: Level


class FaultWord(NamedTuple):
    """The fields of a code word; the split was derived from about 130 published codes and is not documented."""

    kind: int
    """Bits 31 to 28: 8 for faults of the device, 4 for lost cards; others are not understood."""
    node_type: int
    """Bits 27 to 17: the part, for instance 0x70 for HBM."""
    sensor: int
    """Bits 16 to 9: what was sensed, for instance 0x0C for memory."""
    state: int
    """Bits 8 to 0: which of the sensor's states."""


_ROWS = (
    Fault("80E01801", "HBM", "an access met an ECC error of several bits", "RestartBusiness"),
    Fault("80E18400", "HBM", "an ECC error of several bits, told with the process that met it", "NotHandle"),
    Fault("80E01809", "HBM", "patrol scrubbing met an ECC error of several bits", "NotHandle"),
    Fault("80E18401", "HBM", "16 or more rows with errors of several bits are isolated on one device", "NotHandle"),
    Fault(
        "80E18402",
        "HBM",
        "64 or more rows with errors of several bits are isolated: the chip is due for replacement",
        "Separate",
    ),
    Fault("80E00209", "HBM", "over-temperature warning", "NotHandle"),
    Fault("80E0020B", "HBM", "over-temperature, fatal", "Separate"),
    Fault("80E18005", "HBM controller", "parity error", "RestartNPU"),
    Fault("80DE1801", "DDR", "an ECC error of several bits", "RestartNPU"),
    Fault("80E20207", "low-power manager", "the SoC is too hot, not yet fatal", "SubHealth"),
    Fault("80E21007", "low-power manager", "over-current alarm of the main supply", "NotHandle"),
    Fault("80E21008", "low-power manager", "the over-current could not be controlled", "RestartNPU"),
    Fault("80E24E00", "low-power manager", "heartbeat lost", "RestartNPU"),
    Fault("80E3A201", "low-power manager", "voltage scaling does not work", "Separate"),
    Fault("80E3A202", "low-power manager", "frequency scaling does not work", "RestartNPU"),
    Fault("80E3A203", "low-power manager", "current sensing does not work", "RestartNPU"),
    Fault("80C98008", "AI cube core", "an ECC error of several bits", "RestartRequest"),
    Fault("80C98009", "AI cube core", "bus access error", "RestartRequest"),
    Fault("80CB8009", "AI vector core", "bus access error", "RestartRequest"),
    Fault("80C98002", "AI cube core", "bad input from outside, often a mistake in the software", "RestartRequest"),
    Fault("80CB8008", "AI vector core", "an ECC error of several bits", "RestartRequest"),
    Fault("80CD8008", "L2 buffer", "an ECC error of several bits", "RestartNPU"),
    Fault("80F78008", "task scheduler hardware", "an ECC error of several bits", "RestartNPU"),
    Fault("80FA4E00", "task scheduler", "heartbeat lost", "RestartNPU"),
    Fault("80CF8009", "SDMA", "bus error", "RestartNPU"),
    Fault("80B98000", "PCIe", "the module does not work as it should", "RestartNPU"),
    Fault("81078603", "RoCE port", "the link went down", "NotHandle"),
    Fault("81078605", "RoCE port", "some lanes are lost", "SubHealth"),
    Fault("819B8605", "HCCS", "some lanes are lost", "SubHealth"),
    Fault("81A38605", "HCCS port", "some lanes are lost", ""),
    Fault("81B18603", "UB port", "the link went down", "NotHandle"),
    Fault("80818C05", "SoC", "the hardware computes wrongly, high risk", "Separate"),
    Fault(
        "40F84E00",
        "operating system of the device",
        "heartbeat between boards lost: the card has dropped out",
        "RestartNPU",
    ),
    Fault("8C084E00", "device daemon ADDA", "heartbeat lost", "FreeRestartNPU"),
    Fault("8C0A4E00", "device daemon dmp_daemon", "heartbeat lost", "FreeRestartNPU"),
    Fault("8C204E00", "device daemon tsdaemon", "heartbeat lost", "RestartBusiness"),
    Fault(
        "8C03A000", "process manager of the device", "heartbeat lost, or ended when it should not have", "RestartNPU"
    ),
    Fault(
        "8C1FA006", "device daemon tsdaemon", "key resources of the hccp process could not be released", "RestartNPU"
    ),
    Fault(
        "8C17A005",
        "device daemon tsdaemon",
        "common resources of aicpu_scheduler could not be released",
        "FreeRestartNPU",
    ),
    Fault("8C2FA001", "operating system of the device", "memory use is over its threshold", "SubHealth"),
    Fault("8C2FA009", "operating system of the device", "start-up finished; information only", "NotHandle"),
)

FAULTS: dict[str, Fault] = {fault.code: fault for fault in _ROWS}

_PART_OF_NODE_TYPE = {
    0x5C: "PCIe",
    0x64: "AI cube core",
    0x65: "AI vector core",
    0x70: "HBM",
    0x71: "low-power manager",
    0x7D: "task scheduler",
    0x83: "network port",
    0xD1: "HCCS port",
    0xD8: "UB port",
    0x617: "operating system of the device",
}

_SENSORS = {
    0x01: "temperature",
    0x08: "current",
    0x0C: "memory",
    0x27: "heartbeat",
    0xC0: "hardware error",
    0xC2: "ECC isolation",
    0xC3: "link",
    0xD0: "software state",
    0xD1: "low-power",
}


def normalized(code: str | int) -> str:
    """The code as eight upper-case hexadecimal digits, from a number or from text with or without ``0x``.

    Raises ValueError for what is no 32-bit number; the management software above the driver makes up longer ones.
    """
    number = code if isinstance(code, int) else int(code, 16)
    if not 0 <= number < 1 << 32:
        raise ValueError(f"fault code {code!r} does not fit 32 bits")
    return f"{number:08X}"


def decode(code: str | int) -> FaultWord:
    """The fields of the code word; ValueError as for `normalized`."""
    word = int(normalized(code), 16)
    return FaultWord(kind=word >> 28, node_type=word >> 17 & 0x7FF, sensor=word >> 9 & 0xFF, state=word & 0x1FF)


def find(code: str | int) -> Fault | None:
    """The row of the code; None when it has none or is no code at all."""
    try:
        return FAULTS.get(normalized(code))
    except ValueError:
        return None


def severity(code: str | int) -> FaultSeverity:
    """How bad the code is, by the vendor's handling of it; ``unknown`` without a row, never a guess from the fields."""
    fault = find(code)
    return "unknown" if fault is None else SEVERITY_OF_LEVEL[fault.level]


def describe(code: str | int) -> str:
    """One line for people: part and meaning, or what the fields of an unlisted code tell."""
    fault = find(code)
    if fault is not None:
        return f"{fault.part}: {fault.meaning}"
    try:
        word = decode(code)
    except ValueError:
        return "not a fault code"
    part = _PART_OF_NODE_TYPE.get(word.node_type, f"node type 0x{word.node_type:X}")
    sensor = _SENSORS.get(word.sensor, f"sensor 0x{word.sensor:X}")
    return f"{part}: unlisted {sensor} code, state {word.state}"
