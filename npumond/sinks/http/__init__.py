"""The HTTP server: pages for Prometheus, for people, for scripts and for the kubelet."""

import os

# While it is imported, aiohttp makes two TLS contexts for clients, with all of the system's certificates: 2 MiB that a
# server never looks at. This package is imported before anything else of ours that imports aiohttp.
_certificates = os.environ.get("SSL_CERT_FILE")
os.environ["SSL_CERT_FILE"] = os.devnull

from npumond.sinks.http.connections import Limits  # noqa: E402
from npumond.sinks.http.server import HttpServer  # noqa: E402

if _certificates is None:
    del os.environ["SSL_CERT_FILE"]
else:
    os.environ["SSL_CERT_FILE"] = _certificates

__all__ = ["HttpServer", "Limits"]
