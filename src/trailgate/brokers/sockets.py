"""Sockets that are connected to a broker, encrypted where its address asks for that."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable
from typing import Final

from trailgate.brokers.address import BrokerAddress
from trailgate.errors import BrokerError, BrokerRefusedError, Where

CONNECT_SECONDS: Final = 10.0
_ALERT: Final = re.compile(r"alert.*(certificate|unknown ca|access denied)", re.IGNORECASE)


def connected(address: BrokerAddress) -> socket.socket:
    """Return a socket that does not block; raises BrokerError where there is none, BrokerRefusedError where there never will be."""
    where = Where(source=str(address))
    place = (address.host, address.port)
    try:
        plain = socket.create_connection(place, CONNECT_SECONDS)
    except OSError as error:
        raise BrokerError(f"the broker cannot be reached: {error}", where=where) from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        opened = _encrypted(plain, address) if address.tls else plain
        opened.setblocking(False)
    except (OSError, ValueError) as error:
        plain.close()
        kind = BrokerError if _may_help(error) else BrokerRefusedError
        raise kind(f"no encrypted connection: {error}", where=where) from error
    return opened


def received_into(
    opened: socket.socket, room: memoryview, failed: Callable[..., BrokerError]
) -> int | None:
    """Return how many bytes were there, 0 where the connection is closed, None where nothing was there.

    Raises the error that ``failed`` makes of a problem; ``refused`` is set where the broker refuses the client's certificate.
    """
    try:
        return opened.recv_into(room)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None
    except ConnectionError:
        return 0
    except OSError as error:
        # By TLS 1.3 that comes with the broker's first answer.
        refused = isinstance(error, ssl.SSLError) and _ALERT.search(str(error)) is not None
        what = "the broker refuses the certificate" if refused else "the connection is lost"
        raise failed(f"{what}: {error}", refused=refused) from error


def _may_help(error: Exception) -> bool:
    """Return whether trying again may help where an encrypted connection fails: the broker may be being stopped."""
    ended = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
    return isinstance(error, ended) or not isinstance(error, (ssl.SSLError, ValueError))


def _encrypted(plain: socket.socket, address: BrokerAddress) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=address.options.get("ca"))
    if "cert" in address.options:
        context.load_cert_chain(address.options["cert"], address.options.get("key"))
    return context.wrap_socket(plain, server_hostname=address.host)
