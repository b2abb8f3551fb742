"""How durations, sizes, ratios and addresses are written, and how they are read.

A `Notation` is hung on a settings field (`msgspec.Meta(extra={"notation": ...})`). Reading raises ValueError with words
that finish the sentence "driver.call_timeout: ...".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from npumond.catalog import BY_NAME
from npumond.rules.checking import parse_selector
from npumond.rules.table import Matcher


class Notation(Struct, frozen=True):
    """A way to write a value as one scalar."""

    what: str
    """What the reader is told to write: ``a duration such as 500ms, 5s or 2m``."""
    read: Callable[[str], Any]
    """Text to value; ValueError says what is wrong."""
    show: Callable[[Any], str | float]
    """Value to what may be written for it; ``read(str(show(value))) == value``."""


class Listen(Struct, frozen=True):
    """Where the HTTP server listens: a host and port, or the path of a Unix socket."""

    host: str = ""
    """Name, IPv4 or IPv6 address without brackets; empty for a Unix socket."""
    port: int = 0
    """0 asks the system for any free port."""
    path: str = ""
    """Absolute path of the Unix socket; empty for TCP."""

    def __str__(self) -> str:
        """As it is written in the configuration."""
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean 'x'?`` for the nearest of the known words; empty when none is near."""
    near = get_close_matches(word[:200], known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""


_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "kB": 10**3, "MB": 10**6, "GB": 10**9, "B": 1}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_DURATION = re.compile("".join(rf"(?:({_NUMBER}){unit})?" for unit in _MILLISECONDS))
_SIZE = re.compile(rf"({_NUMBER}) ?({'|'.join(_BYTES)})")
_RATIO = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)( ?%)?")
_UNIX_PATH_LIMIT = 107  # sun_path has 108 bytes on Linux, one of them the closing NUL


def duration(text: str) -> float:
    """Seconds of ``500ms``, ``5s``, ``1h30m``; a bare 0 is the same in every unit."""
    if text == "0":
        return 0.0
    if re.fullmatch(_NUMBER, text):
        raise ValueError(f"needs a unit: ms, s, m, h or d, as in {text}s")
    match = _DURATION.fullmatch(text)
    if not text or not match:
        raise ValueError(f"must be {DURATION.what}")
    parts = zip(match.groups(), _MILLISECONDS.values(), strict=True)
    return sum(float(number) * unit for number, unit in parts if number) / 1000


def show_duration(seconds: float) -> str:
    """The shortest way to write a duration: ``500ms``, ``2m``, ``1m30s``."""
    left = round(seconds * 1000, 6)
    if left != int(left):
        return f"{left:f}".rstrip("0") + "ms"
    words = []
    for unit, size in _MILLISECONDS.items():
        count, left = divmod(int(left), size)
        words.append(f"{count}{unit}" if count else "")
    return "".join(words) or "0s"


def byte_size(text: str) -> int:
    """Bytes of ``512MiB``, ``1.5GB``."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"must be {SIZE.what}")
    return int(float(match[1]) * _BYTES[match[2]])


def show_bytes(size: int) -> str:
    """The largest binary unit that divides the size: ``512MiB``."""
    unit = next((unit for unit in ("TiB", "GiB", "MiB", "KiB") if size % _BYTES[unit] == 0), "B")
    return f"{size // _BYTES[unit]}{unit}"


def threshold(text: str) -> float:
    """A number; ``70%`` is 0.7."""
    match = _RATIO.fullmatch(text)
    value = float(match[1]) if match else math.inf
    if not match or not math.isfinite(value):
        raise ValueError(f"must be {THRESHOLD.what}")
    return value / 100 if match[2] else value


def listen(text: str) -> Listen:
    """``0.0.0.0:9090``, ``[::]:9090``, ``localhost:9090``, ``unix:/run/npumond/http.sock``."""
    if text.startswith("unix:"):
        return Listen(path=_socket_path(text.removeprefix("unix:")))
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"must be {LISTEN.what}")
    return Listen(host=_host(host), port=_port(port))


def _socket_path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("needs an absolute path after unix:, as in unix:/run/npumond/http.sock")
    if "\0" in path or len(path.encode(errors="surrogateescape")) > _UNIX_PATH_LIMIT:
        raise ValueError(f"the path of a Unix socket has at most {_UNIX_PATH_LIMIT} bytes")
    return str(PurePosixPath(path))


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError("needs a port number after the last colon, as in 0.0.0.0:9090")
    if int(text) > 65535:
        raise ValueError("the port must be from 0 to 65535")
    return int(text)


def _host(text: str) -> str:
    """Checked and in one spelling, so that the same address written twice is seen to be the same."""
    if not text:
        raise ValueError("needs a host: 0.0.0.0 for all of IPv4, [::] for all of IPv6")
    if text.startswith("[") and text.endswith("]"):
        return _ip(IPv6Address, text[1:-1])
    if ":" in text:
        raise ValueError("an IPv6 address goes in brackets, as in [::1]:9090")
    if re.fullmatch(r"[0-9.]+", text):
        return _ip(IPv4Address, text)
    if not re.fullmatch(r"(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?(?:\.[A-Za-z0-9_-]+)*\.?", text):
        raise ValueError("is not a host name or address")
    return text.lower()


def _ip(kind: type[IPv4Address | IPv6Address], text: str) -> str:
    try:
        return str(kind(text))
    except ValueError:
        raise ValueError(f"is not an {kind.__name__.removesuffix('Address')} address") from None


def datagrams(text: str) -> Listen:
    """``udp:127.0.0.1:8125``, ``unix:/run/npumond/statsd.sock``."""
    scheme, _, rest = text.partition(":")
    if scheme == "unix":
        return listen(text)
    if scheme != "udp" or ":" not in rest or rest.startswith("unix:"):
        raise ValueError(f"must be {DATAGRAMS.what}")
    return listen(rest)


def show_datagrams(address: Listen) -> str:
    """As `datagrams` reads it."""
    return str(address) if address.path else f"udp:{address}"


def url(text: str) -> str:
    """An address by HTTP or HTTPS, without user and password: those would be shown wherever the address is."""
    parts = _address(text, ("http", "https"), URL)
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or a password; token_file names a file with a token")
    return text


def broker(text: str) -> str:
    """``mqtt://host:1883`` or ``mqtts://host:8883``."""
    parts = _address(text, ("mqtt", "mqtts"), BROKER)
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or a password; they are username and password_file")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"must be {BROKER.what}")
    return text


def _address(text: str, schemes: tuple[str, ...], notation: Notation) -> SplitResult:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"must be {notation.what}: {error}") from None
    if parts.scheme not in schemes or not parts.hostname or port == 0 or not text.isprintable() or " " in text:
        raise ValueError(f"must be {notation.what}")
    return parts


def metric(text: str) -> str:
    """Name of a catalogue family that has one value a series, or a selector of such series."""
    name, matchers = parse_selector(text) if "{" in text else (text, ())
    family = BY_NAME.get(name)
    if family is None:
        raise ValueError(f"unknown metric{did_you_mean(name, BY_NAME)}")
    for matcher in matchers:
        if matcher.label not in family.labels:
            raise ValueError(f"{name} has no label {matcher.label!r}{did_you_mean(matcher.label, family.labels)}")
    _check_expressions(matchers)
    if family.kind == "histogram":
        raise ValueError("is a histogram and has no single value to compare")
    return text


def selector(text: str) -> str:
    """A Prometheus selector whose regular expressions can be used."""
    try:
        _check_expressions(parse_selector(text)[1])
    except ValueError as error:
        raise ValueError(f"must be {SELECTOR.what}: {error}") from None
    return text


def _check_expressions(matchers: Iterable[Matcher]) -> None:
    for matcher in matchers:
        if matcher.op in ("=~", "!~"):
            try:
                re.compile(matcher.value)
            except re.error as error:
                raise ValueError(str(error)) from None


def rule_name(text: str) -> str:
    """What Prometheus and Alertmanager take as an alert's name without quoting."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", text):
        raise ValueError(f"must be {RULE_NAME.what}")
    return text


def node_name(text: str) -> str:
    """One printable word or so: it becomes a label and a part of MQTT topics."""
    if not text.isprintable() or not 0 < len(text.strip()) <= 253:
        raise ValueError(f"must be {NODE_NAME.what}")
    return text.strip()


def _number(value: float) -> float:
    return value


DURATION = Notation("a duration such as 500ms, 5s or 2m", duration, show_duration)
SIZE = Notation("a size such as 512MiB or 2GiB", byte_size, show_bytes)
THRESHOLD = Notation("a number, or a percentage such as 70%", threshold, _number)
LISTEN = Notation("host:port, [ipv6]:port or unix:/absolute/path", listen, str)
DATAGRAMS = Notation("udp:host:port or unix:/absolute/path", datagrams, show_datagrams)
SELECTOR = Notation('a counter such as http_requests_total{status="200"}', selector, str)
BROKER = Notation("a broker such as mqtt://127.0.0.1:1883", broker, str)
URL = Notation("a URL such as http://127.0.0.1:8000/metrics", url, str)
METRIC = Notation("the name of a metric", metric, str)
RULE_NAME = Notation("a name of letters, digits and _ that starts with a letter", rule_name, str)
NODE_NAME = Notation("a name of 1 to 253 printable characters", node_name, str)
