"""Compiles the stand-in libraries with gcc.

The result is kept under a name made of the sources and options, so a second build of the same thing is a look-up.
Missing symbols are taken out by the linker's version script: dlsym then fails as it does with an older driver.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DCMI_SOURCES = (
    "dcmi_abi_check.c",
    "dcmi_core.c",
    "dcmi_identity.c",
    "dcmi_telemetry.c",
    "dcmi_links.c",
    "dcmi_info.c",
    "dcmi_events.c",
    "dcmi_v1.c",
    "dcmi_v2.c",
    "scenario.c",
)
ACL_SOURCES = ("acl.c", "scenario.c")
TOOL_SOURCES = ("hccn_tool.c", "scenario.c")
CLOCK_SOURCES = ("clock.c",)
CLOCK_CALLS = ("clock_gettime", "gettimeofday", "time")
FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")


@dataclass(frozen=True)
class StandIn:
    """Where the compiled libraries are.

    `acl` is libacl_rt.so; libascendcl.so with the same symbols lies beside it, and so does `hccn_tool`.
    """

    directory: Path
    dcmi: Path
    acl: Path
    hccn_tool: Path

    @property
    def clock(self) -> Path:
        """For LD_PRELOAD: shifts the wall clock of a process, see clock.c."""
        return self.directory / "libclock.so"


def build(directory: Path, missing: tuple[str, ...] = (), ecc_bytes: int = 28) -> StandIn:
    """Compile (or find) the stand-in under `directory`; safe to call from several test processes at once.

    `missing` names symbols of either library that dlsym must not find; `ecc_bytes` is 28 or, as newer drivers, 36.
    """
    if ecc_bytes not in (28, 36):
        raise ValueError(f"ecc_bytes must be 28 or 36, not {ecc_bytes}")
    target = directory / _digest(missing, ecc_bytes)
    if not target.exists():
        _build_beside(target, missing, ecc_bytes)
    return StandIn(target, target / "libdcmi.so", target / "libacl_rt.so", target / "hccn_tool")


def _digest(missing: tuple[str, ...], ecc_bytes: int) -> str:
    digest = hashlib.sha256(repr((sorted(missing), ecc_bytes, FLAGS)).encode())
    for source in sorted((*HERE.glob("*.c"), *HERE.glob("*.h"))):
        digest.update(source.name.encode() + source.read_bytes())
    return f"standin-{digest.hexdigest()[:16]}"


def _build_beside(target: Path, missing: tuple[str, ...], ecc_bytes: int) -> None:
    # Into a directory of its own, then a rename: another process never sees half a build.
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        define = f"-DSTANDIN_ECC_BYTES={ecc_bytes}"
        _library(scratch / "libdcmi.so", DCMI_SOURCES, ("dcmi_*", "dcmiv2_*"), missing, define)
        _library(scratch / "libacl_rt.so", ACL_SOURCES, ("acl*",), missing, define)
        _library(scratch / "libclock.so", CLOCK_SOURCES, CLOCK_CALLS, (), define)
        shutil.copy(scratch / "libacl_rt.so", scratch / "libascendcl.so")
        _gcc("-o", str(scratch / "hccn_tool"), *(str(HERE / name) for name in TOOL_SOURCES))
        scratch.chmod(0o755)
        scratch.rename(target)
    except OSError:
        if not target.exists():
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _library(
    output: Path, sources: tuple[str, ...], exported: tuple[str, ...], missing: tuple[str, ...], define: str
) -> None:
    script = output.with_suffix(".map")
    visible = " ".join(f"{name};" for name in exported)
    hidden = " ".join(f"{name};" for name in (*missing, "*"))
    script.write_text(f"{{ global: {visible} local: {hidden} }};\n")
    _gcc(
        "-shared",
        "-fPIC",
        define,
        f"-Wl,--version-script={script}",
        f"-Wl,-soname,{output.name}",
        "-o",
        str(output),
        *(str(HERE / name) for name in sources),
    )


def _gcc(*arguments: str) -> None:
    done = subprocess.run(["gcc", *FLAGS, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"gcc failed on the stand-in:\n{done.stderr}")
