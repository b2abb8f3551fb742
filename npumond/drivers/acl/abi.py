"""The binary interface of the ACL runtime, as far as npumond calls it: signatures, structures, error codes.

Source: ``include/external/acl/acl_rt.h`` and ``acl_base.h`` of the open CANN runtime (ACL API 1.17); sizes by gcc.
Every function that is bound has its argument and result types here; what is not in `SIGNATURES` cannot be called.

Why output arguments are ``void *`` here although the headers name their types: they are always buffers out of an
`Arena`, which knows the type, and one rule for all is easier to check than a pointer type for each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_void_p
from typing import Any, Final, TypeVar

from msgspec import Struct

from npumond.drivers.guarded import Arena
from npumond.errors import NpumondError
from npumond.model import OutcomeKind


class UtilizationInfo(ctypes.Structure):
    """``aclrtUtilizationInfo``, 24 bytes. Percent; an item that failed or is not supported is -1."""

    _fields_ = (
        ("cubeUtilization", c_int32),
        ("vectorUtilization", c_int32),
        ("aicpuUtilization", c_int32),
        ("memoryUtilization", c_int32),
        ("utilizationExtend", c_void_p),  # reserved: anything but NULL is an invalid-parameter error
    )


class Uuid(ctypes.Structure):
    """``aclrtUuid``, 16 bytes."""

    _fields_ = (("bytes", c_uint8 * 16),)


class Int32(ctypes.Structure):
    """An ``int32_t *`` output."""

    _fields_ = (("value", c_int32),)


class UInt32(ctypes.Structure):
    """A ``uint32_t *`` output."""

    _fields_ = (("value", c_uint32),)


class Int64(ctypes.Structure):
    """An ``int64_t *`` output."""

    _fields_ = (("value", c_int64),)


class Text(ctypes.Structure):
    """A ``char *`` output; the longest that is asked for is 128 (``ACL_PKG_VERSION_MAX_SIZE``)."""

    _fields_ = (("value", c_char * 128),)


class Handle(ctypes.Structure):
    """A ``void **`` output: a stream, device memory, pinned host memory."""

    _fields_ = (("value", c_void_p),)


class ApiVersion(ctypes.Structure):
    """The three ``int32_t *`` outputs of ``aclrtGetVersion``."""

    _fields_ = (("major", c_int32), ("minor", c_int32), ("patch", c_int32))


class MemInfo(ctypes.Structure):
    """The two ``size_t *`` outputs of ``aclrtGetMemInfo``, in bytes."""

    _fields_ = (("free", c_size_t), ("total", c_size_t))


AICORE_COUNT: Final = 101
TOTAL_GLOBAL_MEMORY: Final = 301
PHY_CHIP_ID: Final = 402
IS_VIRTUAL: Final = 501

MEM_HBM: Final = 1
MALLOC_NORMAL_ONLY: Final = 2
"""``ACL_MEM_MALLOC_NORMAL_ONLY``: the other policies may take a 2 MB page for 64 bytes."""
HOST_TO_DEVICE: Final = 1
DEVICE_TO_HOST: Final = 2

_OUT = c_void_p
_STREAM = c_void_p
_ENUM = ctypes.c_int

SIGNATURES: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    # Without a context.
    "aclInit": (c_int32, (c_char_p,)),
    "aclGetRecentErrMsg": (c_char_p, ()),
    "aclrtGetVersion": (c_int32, (_OUT, _OUT, _OUT)),
    "aclsysGetVersionStr": (c_int32, (c_char_p, _OUT)),
    "aclrtGetSocName": (c_char_p, ()),
    "aclrtGetDeviceCount": (c_int32, (_OUT,)),
    "aclrtGetDeviceInfo": (c_int32, (c_uint32, _ENUM, _OUT)),
    "aclrtGetDeviceUtilizationRate": (c_int32, (c_int32, _OUT)),
    "aclrtGetPhyDevIdByUserDevId": (c_int32, (c_int32, _OUT)),
    "aclrtDeviceGetPCIBusId": (c_int32, (c_int32, _OUT, c_int32)),
    "aclrtDeviceGetUuid": (c_int32, (c_int32, _OUT)),
    # With a context: the round-trip probe alone.
    "aclrtSetDevice": (c_int32, (c_int32,)),
    "aclrtCreateStream": (c_int32, (_OUT,)),
    "aclrtMalloc": (c_int32, (_OUT, c_size_t, _ENUM)),
    "aclrtMallocHost": (c_int32, (_OUT, c_size_t)),
    "aclrtMemcpyAsync": (c_int32, (c_void_p, c_size_t, c_void_p, c_size_t, _ENUM, _STREAM)),
    "aclrtSynchronizeStreamWithTimeout": (c_int32, (_STREAM, c_int32)),
    "aclrtGetMemInfo": (c_int32, (_ENUM, _OUT, _OUT)),
}
"""Result type and argument types by the vendor's name. ``Any``: ctypes has no public name for "a C type"."""


class ErrorCode(Struct, frozen=True):
    """What an ``aclError`` is called and which class of outcome it is."""

    name: str
    kind: OutcomeKind
    hint: str = ""
    """What the name does not tell."""


SUCCESS: Final = 0
INVALID_PARAM: Final = 100000
REPEAT_INITIALIZE: Final = 100002
PARAM_INVALID: Final = 107000
STREAM_SYNC_TIMEOUT: Final = 507046

ERRORS: Final[Mapping[int, ErrorCode]] = {
    100000: ErrorCode("ACL_ERROR_INVALID_PARAM", "error"),
    100001: ErrorCode("ACL_ERROR_UNINITIALIZE", "error"),
    100002: ErrorCode("ACL_ERROR_REPEAT_INITIALIZE", "error"),
    100003: ErrorCode("ACL_ERROR_INVALID_FILE", "error"),
    100004: ErrorCode("ACL_ERROR_WRITE_FILE", "error"),
    100005: ErrorCode("ACL_ERROR_INVALID_FILE_SIZE", "error"),
    100006: ErrorCode("ACL_ERROR_PARSE_FILE", "error"),
    107000: ErrorCode("ACL_ERROR_RT_PARAM_INVALID", "error"),
    107001: ErrorCode("ACL_ERROR_RT_INVALID_DEVICEID", "not_ready", "the device is gone or the driver is not loaded"),
    107002: ErrorCode("ACL_ERROR_RT_CONTEXT_NULL", "error"),
    107003: ErrorCode("ACL_ERROR_RT_STREAM_CONTEXT", "error"),
    107019: ErrorCode("ACL_ERROR_RT_WAIT_TIMEOUT", "timeout"),
    107020: ErrorCode("ACL_ERROR_RT_TASK_TIMEOUT", "timeout"),
    107022: ErrorCode("ACL_ERROR_RT_DEVICE_TASK_ABORT", "not_ready", "the device is being recovered"),
    107023: ErrorCode("ACL_ERROR_RT_STREAM_ABORT", "not_ready", "the device is being recovered"),
    200000: ErrorCode("ACL_ERROR_BAD_ALLOC", "error", "host memory"),
    200001: ErrorCode("ACL_ERROR_API_NOT_SUPPORT", "unsupported"),
    200002: ErrorCode("ACL_ERROR_INVALID_DEVICE", "not_ready"),
    200006: ErrorCode("ACL_ERROR_FEATURE_UNSUPPORTED", "unsupported"),
    200007: ErrorCode("ACL_ERROR_PROF_MODULES_UNSUPPORTED", "unsupported"),
    207000: ErrorCode("ACL_ERROR_RT_FEATURE_NOT_SUPPORT", "unsupported"),
    207001: ErrorCode("ACL_ERROR_RT_MEMORY_ALLOCATION", "error", "the HBM is full, which is no fault"),
    207004: ErrorCode("ACL_ERROR_RT_NO_DEVICE", "not_ready", "no device, or a bad ASCEND_RT_VISIBLE_DEVICES"),
    207005: ErrorCode("ACL_ERROR_RT_RESOURCE_ALLOC_FAIL", "error", "the device's resources are exhausted"),
    207006: ErrorCode("ACL_ERROR_RT_NO_PERMISSION", "denied"),
    207007: ErrorCode("ACL_ERROR_RT_NO_EVENT_RESOURCE", "error", "the device's events are exhausted"),
    207008: ErrorCode("ACL_ERROR_RT_NO_STREAM_RESOURCE", "error", "the device's streams are exhausted"),
    207018: ErrorCode("ACL_ERROR_RT_DEVICE_OOM", "error", "the HBM is full, which is no fault"),
    207020: ErrorCode("ACL_ERROR_RT_TIMEOUT", "timeout"),
    300000: ErrorCode("ACL_ERROR_STORAGE_OVER_LIMIT", "error"),
    500000: ErrorCode("ACL_ERROR_INTERNAL_ERROR", "error"),
    500001: ErrorCode("ACL_ERROR_FAILURE", "error"),
    500002: ErrorCode("ACL_ERROR_GE_FAILURE", "error"),
    500003: ErrorCode("ACL_ERROR_RT_FAILURE", "error"),
    500004: ErrorCode("ACL_ERROR_DRV_FAILURE", "error"),
    500005: ErrorCode("ACL_ERROR_PROFILING_FAILURE", "error"),
    507000: ErrorCode("ACL_ERROR_RT_INTERNAL_ERROR", "fault"),
    507001: ErrorCode("ACL_ERROR_RT_TS_ERROR", "fault"),
    507008: ErrorCode("ACL_ERROR_RT_SOC_VERSION", "error", "driver and CANN do not fit together"),
    507010: ErrorCode("ACL_ERROR_RT_LOST_HEARTBEAT", "fault", "the task scheduler does not answer"),
    507011: ErrorCode("ACL_ERROR_RT_MODEL_EXECUTE", "fault"),
    507012: ErrorCode("ACL_ERROR_RT_REPORT_TIMEOUT", "fault"),
    507013: ErrorCode("ACL_ERROR_RT_SYS_DMA", "fault"),
    507014: ErrorCode("ACL_ERROR_RT_AICORE_TIMEOUT", "error", "the workload or a core"),
    507015: ErrorCode("ACL_ERROR_RT_AICORE_EXCEPTION", "error", "the workload or a core"),
    507016: ErrorCode("ACL_ERROR_RT_AICORE_TRAP_EXCEPTION", "error", "the workload or a core"),
    507017: ErrorCode("ACL_ERROR_RT_AICPU_TIMEOUT", "error", "the workload"),
    507018: ErrorCode("ACL_ERROR_RT_AICPU_EXCEPTION", "error", "the workload"),
    507033: ErrorCode(
        "ACL_ERROR_RT_DEV_SETUP_ERROR", "error", "it cannot be opened; its HBM may be full, which is no fault"
    ),
    507034: ErrorCode("ACL_ERROR_RT_VECTOR_CORE_TIMEOUT", "error", "the workload or a core"),
    507035: ErrorCode("ACL_ERROR_RT_VECTOR_CORE_EXCEPTION", "error", "the workload or a core"),
    507046: ErrorCode("ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", "timeout"),
    507047: ErrorCode("ACL_ERROR_RT_EVENT_SYNC_TIMEOUT", "timeout"),
    507053: ErrorCode("ACL_ERROR_RT_DEVICE_MEM_ERROR", "fault"),
    507054: ErrorCode("ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR", "fault"),
    507055: ErrorCode("ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR", "fault"),
    507056: ErrorCode("ACL_ERROR_RT_LINK_ERROR", "fault"),
    507057: ErrorCode("ACL_ERROR_RT_SUSPECT_REMOTE_ERROR", "fault"),
    507899: ErrorCode("ACL_ERROR_RT_DRV_INTERNAL_ERROR", "fault"),
    507901: ErrorCode("ACL_ERROR_RT_SOCKET_CLOSE", "fault", "the connection to the device is lost"),
    507914: ErrorCode("ACL_ERROR_RT_L3_PORT_ERROR", "fault"),
}
"""Source: ``acl_base.h`` and ``runtime/rt_error_codes.h``. A full HBM is an ``error`` and never a ``fault``."""


def outcome_kind(code: int) -> OutcomeKind:
    """The class of an ``aclError``; ``error`` for one that is not in the table."""
    if code == SUCCESS:
        return "ok"
    known = ERRORS.get(code)
    return known.kind if known is not None else "error"


def describe(code: int) -> str:
    """An ``aclError`` in words: number, name, and what the name does not tell."""
    known = ERRORS.get(code)
    if known is None:
        return f"aclError {code}"
    return f"{known.name} ({code})" + (f": {known.hint}" if known.hint else "")


S = TypeVar("S", bound=ctypes.Structure)


class Out(Struct, frozen=True):
    """Stands in a list of arguments for the address of the output structure."""

    offset: int = 0
    """Bytes into the structure, for calls that fill several variables."""


OUT: Final = Out()


class CallError(NpumondError):
    """A vendor call that gave no value: its class, the vendor's code (0 without one), and why in words."""

    def __init__(self, kind: OutcomeKind, code: int, detail: str) -> None:
        super().__init__(detail)
        self.kind: OutcomeKind = kind
        self.code = code
        self.detail = detail


class Acl:
    """A loaded ACL library, its functions bound when they are first called.

    The set of functions grew with each CANN; one that is missing is ``unsupported`` and nothing worse.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._bound: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether this library exports the function."""
        try:
            self._function(name)
        except CallError:
            return False
        return True

    def rc(self, name: str, *arguments: object) -> int:
        """Call a function and return its ``aclError``. Raises `CallError` when the library lacks it."""
        return int(self._function(name)(*arguments))

    def do(self, name: str, *arguments: object) -> None:
        """Call a function for its effect. Raises `CallError` unless it succeeds."""
        code = self.rc(name, *arguments)
        if code != SUCCESS:
            raise CallError(outcome_kind(code), code, self._complaint(name, code))

    def get(self, name: str, kind: type[S], *arguments: object) -> S:
        """Call a function that fills a structure, whose place among the arguments is marked by `Out`.

        Raises `CallError` unless it succeeds, ``rejected`` when it wrote outside the structure.
        """
        arena = Arena()  # for each call: some 2 calls a second and chip do not pay for keeping one by thread
        filled = arena.take(kind)
        self.do(name, *(ctypes.byref(filled, a.offset) if isinstance(a, Out) else a for a in arguments))
        damage = arena.check()
        if damage:
            raise CallError("rejected", SUCCESS, f"{name} {damage}")
        return filled

    def text(self, name: str) -> str:
        """Call a function that returns a string; empty for NULL. Raises `CallError` when the library lacks it."""
        return printable(self._function(name)() or b"")

    def _complaint(self, name: str, code: int) -> str:
        said = self.text("aclGetRecentErrMsg") if self.has("aclGetRecentErrMsg") else ""
        return f"{name} gave {describe(code)}" + (f" [{said}]" if said else "")

    def _function(self, name: str) -> Any:
        if name not in self._bound:
            self._bound[name] = self._bind(name)
        function = self._bound[name]
        if function is None:
            raise CallError("unsupported", SUCCESS, f"the library has no {name}")
        return function

    def _bind(self, name: str) -> Any:
        try:
            function = self._library[name]  # unlike an attribute, a new object: nobody else's types on it
        except AttributeError:
            return None
        function.restype, function.argtypes = SIGNATURES[name]
        return function


MAX_TEXT: Final = 256
"""Characters kept of what a library says; its error texts can be pages long."""


def printable(raw: bytes) -> str:
    """Text of a vendor library made safe for a label or a log line: one line, printable, not too long."""
    text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:MAX_TEXT]


def poke(address: int, data: bytes) -> None:
    """Write bytes to memory that a library handed out."""
    ctypes.memmove(address, data, len(data))


def peek(address: int, size: int) -> bytes:
    """Read bytes from memory that a library handed out."""
    return ctypes.string_at(address, size)
