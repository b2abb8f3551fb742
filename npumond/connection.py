"""What every request of ours to another server shares: TLS, the token, and an error in words.

A context of TLS costs some milliseconds and, where the system's certificates are loaded, 2 MiB: it is made when first
needed, one for equal settings, and anew when one of its files has changed, since certificates are renewed under a
running daemon.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from pathlib import Path

import aiohttp
from msgspec import Struct

from npumond.config.settings import Tls

Stamps = tuple[tuple[int, int] | None, ...]


class TlsContexts:
    """Contexts by settings."""

    def __init__(self) -> None:
        self._made: dict[Tls, tuple[Stamps, ssl.SSLContext]] = {}

    def get(self, tls: Tls) -> ssl.SSLContext:
        """The context for these settings. Raises OSError or ssl.SSLError for files that cannot be read or used."""
        stamps = tuple(_stamp(path) for path in (tls.ca_file, tls.cert_file, tls.key_file))
        made = self._made.get(tls)
        if made is None or made[0] != stamps:
            made = self._made[tls] = stamps, _context(tls)
        return made[1]

    def for_url(self, url: str, tls: Tls) -> ssl.SSLContext | bool:
        """What aiohttp wants to know of a request: the context, or True where the URL needs none. Raises as `get`."""
        return self.get(tls) if url.startswith("https:") else True


def _stamp(path: str | None) -> tuple[int, int] | None:
    if path is None:
        return None
    stat = Path(path).stat()
    return stat.st_mtime_ns, stat.st_size


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_file)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context


class Access(Struct, frozen=True):
    """How a server is reached: seconds until it is given up, and what proves who we are."""

    timeout_s: float
    tls: Tls = Tls()
    token_file: str | None = None

    def headers(self) -> dict[str, str]:
        """The token as a header; read anew each time, since tokens are renewed.

        Raises OSError, also where the file holds no token: what cannot be in a header would be a ValueError later.
        """
        if self.token_file is None:
            return {}
        token = Path(self.token_file).read_bytes().strip()
        if not token or not all(0x20 < byte < 0x7F for byte in token):
            raise OSError(errno.EINVAL, "must hold a token: one word of printable ASCII", self.token_file)
        return {"Authorization": f"Bearer {token.decode('ascii')}"}


def new_session() -> aiohttp.ClientSession:
    """A session for requests now and then. To be made on the running loop, and closed.

    A new connection each time: a server that restarts closes idle ones, and the request that finds out would be lost.
    """
    connector = aiohttp.TCPConnector(limit=0, force_close=True, ttl_dns_cache=30)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


CLOSED = "the server closed the connection before its answer was whole"
WANTS_CERTIFICATE = f"{CLOSED}; it may want a certificate of ours (tls.cert_file)"
"""With TLS 1.3 a client learns in no other way that its certificate was missing."""

FAILURES = (aiohttp.ClientError, OSError, UnicodeError)
"""What a request may raise that is the server's, the network's or a file's fault: TimeoutError is an OSError."""


def reason_of(error: BaseException, url: str, access: Access) -> str:
    """One of `FAILURES`, of a request to this URL, in the words that the status page shows."""
    match error:
        case TimeoutError():
            return f"no answer within {access.timeout_s:g} s"
        case aiohttp.ClientConnectorCertificateError():
            return f"TLS: {_verification(error.certificate_error)}"
        case aiohttp.ClientConnectorDNSError():
            return f"the name {error.host} cannot be resolved"
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return f"TLS: {error}"
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ConnectionRefusedError):
            return "connection refused"
        case aiohttp.ClientConnectorError():
            return f"cannot connect: {error.os_error.strerror or error.os_error}"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError() | aiohttp.ClientOSError():
            return WANTS_CERTIFICATE if url.startswith("https:") and access.tls.cert_file is None else CLOSED
        case aiohttp.ClientPayloadError() | asyncio.IncompleteReadError():
            return "the answer was cut off"
        case aiohttp.ClientResponseError():
            # Not the whole error: it tells the URL with its query, where keys are.
            return f"the answer is no valid HTTP: {_first_line(error.message)}"
        case OSError() if error.filename is not None:
            return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _first_line(text: str) -> str:
    return "".join(character for character in text.partition("\n")[0][:200] if character.isprintable()).rstrip(":")


def _verification(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    return str(error)
