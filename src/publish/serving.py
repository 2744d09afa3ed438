"""Serves the built book on this machine."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from publish.freshness import BOOK
from resources.settings import PublicError

HOST = "127.0.0.1"
LAST_PORT = 65535


class ServingError(PublicError, RuntimeError):
    """The book cannot be served; the message says why, and what to do."""


def parse_port(port_text: str) -> int:
    """Return the number of a port.

    Raises:
        ServingError: there is no such port.
    """
    if not port_text.isdecimal() or not 0 < int(port_text) <= LAST_PORT:
        raise ServingError(f"PORT must be from 1 to {LAST_PORT}; found PORT={port_text}.")
    return int(port_text)


def serve(port: int) -> None:
    """Serve the book until this process is interrupted.

    Raises:
        ServingError: the port is taken.
    """
    handler = partial(SimpleHTTPRequestHandler, directory=str(BOOK.parent))
    try:
        server = ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        other = port + 1 if port < LAST_PORT else 8000
        raise ServingError(
            f"Port {port} cannot be used ({error.strerror}). Choose another: "
            f"make serve PORT={other}"
        ) from None
    sys.stdout.write(f"The book is at http://{HOST}:{port}/. Ctrl-C ends the server.\n")
    sys.stdout.flush()
    with server:
        server.serve_forever()
