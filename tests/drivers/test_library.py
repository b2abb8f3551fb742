"""Where libdcmi.so is looked for, and what is said of every place."""

from __future__ import annotations

from pathlib import Path

import pytest

from npumond.drivers import library
from npumond.drivers.library import load
from npumond.errors import DriverError


def test_places_are_tried_in_the_order_of_the_reference(tmp_path: Path) -> None:
    """Loader's path, loader's cache, then where drivers are installed."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ascend_install.info").write_text(
        "UserName=HwHiAiUser\nDriver_Install_Path_Param=/opt/ascend\nDriver_Install_Type=full\n"
    )
    environ = {"LD_LIBRARY_PATH": "/first/lib64:/second/:"}

    assert list(library._candidates(None, environ, tmp_path)) == [
        "/first/lib64/libdcmi.so",
        "/second/libdcmi.so",
        "libdcmi.so",
        f"{tmp_path}/usr/local/dcmi/libdcmi.so",
        "/opt/ascend/driver/lib64/driver/libdcmi.so",
        f"{tmp_path}/usr/local/Ascend/driver/lib64/driver/libdcmi.so",
        f"{tmp_path}/usr/local/Ascend/driver/lib64/libdcmi.so",
        f"{tmp_path}/usr/lib64/libdcmi.so",
        f"{tmp_path}/home/data/miniD/driver/lib64/libdcmi.so",
    ]


def test_a_path_from_the_configuration_is_the_only_one_tried(tmp_path: Path) -> None:
    """Another library than the one asked for would be a surprise."""
    path = f"{tmp_path}/libdcmi.so"

    with pytest.raises(DriverError) as error:
        load(path, {"LD_LIBRARY_PATH": "/other"})

    assert error.value.searched == (f"{path}: not there",)
    assert str(error.value) == f"{path} could not be loaded: {path}: not there"


def test_what_the_loader_says_of_a_broken_library_is_kept(tmp_path: Path) -> None:
    """A text file, a library for another machine, a missing dependency: the loader knows best."""
    (tmp_path / "libdcmi.so").write_text("not a library")

    with pytest.raises(DriverError) as error:
        load(str(tmp_path / "libdcmi.so"), {})

    assert error.value.searched == (f"{tmp_path}/libdcmi.so: file too short",)


def test_a_place_that_is_tried_twice_is_told_once(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH often repeats what the installer says."""
    lib64 = tmp_path / "usr/lib64"

    with pytest.raises(DriverError) as error:
        load(None, {"LD_LIBRARY_PATH": f"{lib64}"}, tmp_path)

    assert error.value.searched.count(f"{lib64}/libdcmi.so: not there") == 1
    assert "libdcmi.so: not in the loader's search path" in error.value.searched
