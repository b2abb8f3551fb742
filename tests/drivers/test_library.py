"""Where libdcmi.so is looked for, and what is said of every place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npumond.drivers.dcmi import library
from npumond.drivers.dcmi.library import load
from npumond.errors import DriverError

ROOT = Path(__file__).parents[2]


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


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["driver", "common"])
def test_what_the_library_needs_is_loaded_from_beside_it(tmp_path: Path, beside: str) -> None:
    """Without the loader's path, as in a container; the driver keeps its libraries in neighbouring directories."""
    needed, wanting = tmp_path / beside / "libc_sec.so", tmp_path / "driver/libdcmi.so"
    for path in (needed, wanting):
        path.parent.mkdir(exist_ok=True)
    shared(needed, "int sec(void) { return 7; }")
    shared(wanting, "int sec(void); int dcmi_init(void) { return sec(); }", f"-L{needed.parent}", "-lc_sec")
    script = (
        f"from npumond.drivers.dcmi.library import load; print(load({str(wanting)!r}, {{}}).bind('dcmi_init', ())())"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)

    assert (done.stdout, done.stderr) == ("7\n", "")


def shared(path: Path, source: str, *options: str) -> None:
    """A shared library of this C source; like the vendor's it has its file name as soname, by which others find it."""
    name = f"-Wl,-soname,{path.name}"
    command = ["gcc", "-shared", "-fPIC", name, "-x", "c", "-", "-x", "none", "-o", str(path), *options]
    subprocess.run(command, input=source, text=True, check=True, env={**os.environ, "LC_ALL": "C"})


def test_a_place_that_is_tried_twice_is_told_once(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH often repeats what the installer says."""
    lib64 = tmp_path / "usr/lib64"

    with pytest.raises(DriverError) as error:
        load(None, {"LD_LIBRARY_PATH": f"{lib64}"}, tmp_path)

    assert error.value.searched.count(f"{lib64}/libdcmi.so: not there") == 1
    assert "libdcmi.so: not in the loader's search path" in error.value.searched
