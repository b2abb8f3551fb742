"""The configuration: read, checked and shown.

`settings` has the structs and defaults, `notation` how single values are written, `document` turns YAML into nodes that
know their lines, `reading` walks nodes and structs side by side, `checks` knows what must agree between values.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from npumond.config.checks import check_rule_names as check_rule_names
from npumond.config.document import LIMIT, compose, decode
from npumond.config.notation import Listen as Listen
from npumond.config.reading import read
from npumond.config.settings import NOT_YET
from npumond.config.settings import Config as Config
from npumond.config.showing import describe as describe
from npumond.errors import ConfigError

DEFAULT_PATH = Path("/etc/npumond/npumond.yaml")


def load(path: Path | None, environ: Mapping[str, str], default: Path = DEFAULT_PATH) -> Config:
    """The configuration in the file; without a path, that of the default file, or the defaults where it does not exist.

    Raises ConfigError with every mistake.
    """
    config = parse(_text(path or default, may_be_missing=path is None), str(path or default))
    return replace(config, node=config.node or environ.get("NODE_NAME", "").strip() or socket.gethostname())


def parse(text: str, origin: str, not_yet: Mapping[str, str] = NOT_YET) -> Config:
    """The configuration in a text; ``origin`` is what mistakes call the file. Raises ConfigError with every mistake."""
    root = compose(text, origin)
    return Config() if root is None else read(root, text, origin, not_yet)


def _text(path: Path, *, may_be_missing: bool) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)  # the limit holds for devices and pipes too, whose size nobody knows
    except FileNotFoundError:
        if may_be_missing:
            return ""
        raise ConfigError((f"{path}: no such file",)) from None
    except OSError as error:
        raise ConfigError((f"{path}: cannot be read: {error.strerror}",)) from None
    return decode(data, str(path))
