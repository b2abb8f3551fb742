"""The stand-in of the ACL runtime does what the ACL reference says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.standin.build import StandIn
from tests.standin.client import INT, Start, buf
from tests.standin.profiles import permute_ids, profile

MAIN = {"thread": "main"}


def test_acl_without_a_context(start: Start) -> None:
    """Count, SoC name, utilisation with -1 for what is not known, attributes, ids, PCI address."""
    scenario = permute_ids(profile("910b"))
    probe = start(scenario, library="acl")
    assert probe.call("aclInit", None).rc == 0
    assert probe.call("aclInit", None).rc == 100002
    assert probe.number("aclrtGetDeviceCount") == 8
    assert probe.call("aclrtGetSocName", text=True).rc == "Ascend910B3"
    assert probe.call("aclrtGetDeviceUtilizationRate", 2, buf(24)).unpack("4i") == (32, 42, 7, -1)
    assert probe.call("aclrtGetDeviceUtilizationRate", 2, buf(24, b"\0" * 16 + b"\1")).rc == 107000
    assert probe.call("aclrtGetDeviceInfo", 2, 402, buf(8)).unpack("q") == (2,)
    assert probe.number("aclrtGetPhyDevIdByLogicDevId", 2) == 5
    assert probe.number("aclrtGetLogicDevIdByPhyDevId", 5) == 2
    assert probe.call("aclrtDeviceGetPCIBusId", 2, buf(13), 13).out[0].rstrip(b"\0") == b"0000:a1:00.0"
    assert probe.call("aclrtDeviceGetUuid", 2, buf(16)).out[0] == bytes(range(32, 48))
    assert probe.number("aclrtQueryDeviceStatus", 2) == 0
    assert probe.number("aclrtGetRunMode") == 1
    assert probe.call("aclrtGetVersion", INT, INT, INT).number(1) == 17
    assert probe.call("aclsysGetVersionStr", {"str": "runtime"}, buf(128)).out[0].rstrip(b"\0") == b"8.5.0"
    assert probe.call("aclFinalize").rc == 0
    assert probe.call("aclFinalize").rc == 100037
    first = start(profile("910"), library="acl")
    assert first.call("aclrtGetDeviceUtilizationRate", 2, buf(24)).unpack("4i") == (32, -1, 7, -1)


@pytest.mark.parametrize(("listed", "seen"), [("1,3,8", [1, 3]), ("1, 2,3", [1]), ("0,2", [0, 2]), ("3,1", None),
                                              ("2,2", None), ("", None), ("x", None)])  # fmt: skip
def test_acl_visible_devices(start: Start, listed: str, seen: list[int] | None) -> None:
    """The list stops at the first bad token; descending, repeated and empty lists are errors."""
    probe = start(profile("910b"), library="acl", env={"ASCEND_RT_VISIBLE_DEVICES": listed})
    count = probe.call("aclrtGetDeviceCount", INT)
    if seen is None:
        assert count.rc == 207004
    else:
        assert count.number() == len(seen)
        assert [probe.number("aclrtGetLogicDevIdByUserDevId", user) for user in range(len(seen))] == seen
        assert probe.number("aclrtGetUserDevIdByLogicDevId", seen[-1]) == len(seen) - 1
        assert probe.call("aclrtGetDeviceUtilizationRate", 0, buf(24)).unpack("i") == (30 + seen[0],)


def test_acl_round_trip(start: Start) -> None:
    """Bytes go to the device and come back; memory needs a context in the thread."""
    probe = start(profile("910b"), library="acl")
    assert probe.call("aclrtGetMemInfo", 1, buf(8), buf(8), **MAIN).rc == 107002
    assert probe.call("aclrtSetDevice", 3, **MAIN).rc == 0
    memory = probe.call("aclrtGetMemInfo", 1, buf(8), buf(8), **MAIN)
    assert memory.unpack("Q", 1) == (65536 << 20,)
    assert memory.unpack("Q") == ((65536 - 31500) << 20,)
    assert probe.call("aclrtGetMemInfo", 1, buf(8), buf(8)).rc == 107002
    probe.call("aclrtCreateStream", buf(8), keep="stream", **MAIN)
    probe.call("aclrtMalloc", buf(8), {"size": 64}, 2, keep="device", **MAIN)
    data = bytes(range(64))
    sync = ("aclrtSynchronizeStreamWithTimeout", {"ref": "stream"}, 500)
    to = ({"ref": "device"}, {"size": 64}, buf(64, data), {"size": 64}, 1, {"ref": "stream"})
    assert probe.call("aclrtMemcpyAsync", *to, **MAIN).rc == 0
    assert probe.call(*sync, **MAIN).rc == 0
    back = (buf(64), {"size": 64}, {"ref": "device"}, {"size": 64}, 2, {"ref": "stream"})
    assert probe.call("aclrtMemcpyAsync", *back, **MAIN).out[0] == data
    assert probe.call(*sync, **MAIN).rc == 0
    assert probe.call("aclrtFree", {"ref": "device"}, **MAIN).rc == 0
    assert probe.call("aclrtDestroyStream", {"ref": "stream"}, **MAIN).rc == 0
    assert probe.call("aclrtResetDevice", 3, **MAIN).rc == 0


def test_acl_stuck_full_and_lost_devices(start: Start, tmp_path: Path) -> None:
    """Sync timeout 507046, no memory for a context 507033, and codes of a lost or unknown device."""
    scenario = profile("910b")
    scenario.chip(1).acl_stuck = True
    scenario.chip(2).lost = -8012
    probe = start(scenario, library="acl")
    probe.call("aclrtSetDevice", 1, **MAIN)
    probe.call("aclrtCreateStream", buf(8), keep="stream", **MAIN)
    probe.call("aclrtMallocHost", buf(8), {"size": 64}, keep="host", **MAIN)
    copy = ({"ref": "host"}, {"size": 64}, buf(64), {"size": 64}, 1, {"ref": "stream"})
    assert probe.call("aclrtMemcpyAsync", *copy, **MAIN).rc == 0
    assert probe.call("aclrtSynchronizeStreamWithTimeout", {"ref": "stream"}, 30, **MAIN).rc == 507046
    assert "timeout" in probe.call("aclGetRecentErrMsg", text=True, **MAIN).rc
    assert probe.call("aclrtSetDevice", 2).rc == 507899
    assert probe.call("aclrtGetDeviceUtilizationRate", 2, buf(24)).unpack("4i") == (-1, -1, -1, -1)
    assert probe.call("aclrtSetDevice", 8).rc == 107001
    scenario.acl_context_mb = 60000
    scenario.write(tmp_path / "scenario")
    assert probe.call("aclrtSetDevice", 3).rc == 507033


def test_acl_setup_time_is_paid_once(start: Start) -> None:
    """The first SetDevice of a process is slow, later ones are not."""
    scenario = profile("910b")
    scenario.acl_set_device_ms = (120, 0)
    probe = start(scenario, library="acl")
    begun = time.monotonic()
    probe.call("aclrtSetDevice", 0)
    middle = time.monotonic()
    probe.call("aclrtSetDevice", 1)
    assert middle - begun >= 0.12
    assert time.monotonic() - middle < 0.1


def test_old_library_name_has_the_same_symbols(built: Callable[..., StandIn]) -> None:
    """libascendcl.so lies beside libacl_rt.so and is the same code."""
    acl = built().acl
    assert acl.with_name("libascendcl.so").read_bytes() == acl.read_bytes()
