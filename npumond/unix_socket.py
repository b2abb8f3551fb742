"""Places of Unix sockets: a file that a dead process left behind is removed, any other is left alone."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

_ANSWER_S = 1.0


def clear_stale(path: Path, kind: socket.SocketKind) -> None:
    """Remove a socket file that nobody serves, so that one of this kind can be bound there.

    Raises OSError: EADDRINUSE when somebody serves it, EEXIST for a file that is no socket.
    """
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise OSError(errno.EEXIST, "there is a file of that name, and it is not a socket")
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.settimeout(_ANSWER_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except TimeoutError:
            pass  # a server too busy to accept lives
    raise OSError(errno.EADDRINUSE, "another process answers there")
