"""The HTTP server: pages for Prometheus, for people, for scripts and for the kubelet."""

from npumond.sinks.http.connections import Limits
from npumond.sinks.http.server import HttpServer

__all__ = ["HttpServer", "Limits"]
