"""Other consumers of a queue: brokers report them in messages of their own, which a second connection receives."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Final

from trailgate.brokers.address import BrokerAddress
from trailgate.brokers.sockets import CONNECT_SECONDS
from trailgate.brokers.stomp.connection import StompConnection, reported
from trailgate.brokers.stomp.frames import Frames
from trailgate.brokers.stomp.kernels import frames as kernels
from trailgate.errors import BrokerError

READY_SECONDS: Final = 2.0  # that a subscription waits for the second connection, at most
POLL_SECONDS: Final = 0.2
RETRY_SECONDS: Final = 30.0
FRAMES: Final = 64  # at once
SECOND: Final = "%s has %d consumers: each gets some of the messages, and their order is lost (docs/guarantees.md)"
UNKNOWN: Final = "whether %s has other consumers is not known: %s"
_LOG: Final = logging.getLogger("trailgate.brokers")


class ConsumerWatch:
    """Logs a warning where a queue has another consumer. Whatever fails here, messages are received all the same."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address = replace(address, options=_without(address))
        self._ready, self._closed = threading.Event(), threading.Event()
        self._count, self._is_known = 0, True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until consumers that come from now on are seen, or that fails."""
        self._ready.wait(READY_SECONDS)

    def close(self) -> None:
        """Close the second connection."""
        self._closed.set()
        self._thread.join(READY_SECONDS)

    def _run(self) -> None:
        known = ""
        while not self._closed.is_set():
            try:
                self._watched()
            except BrokerError as error:
                if error.problem != known:
                    _LOG.info(UNKNOWN, self._address, error.problem)
                known = error.problem
            self._ready.set()
            if not self._is_known:
                return
            self._closed.wait(RETRY_SECONDS)

    def _watched(self) -> None:
        """Receive what the broker reports until this is closed; raises BrokerError."""
        connection = StompConnection(self._address)
        try:
            watched = connection.dialect.consumers
            if watched is None:
                self._is_known = False  # asking again is in vain
                raise connection.error(f"{connection.dialect.name} is not known to report them")
            # A name with its address, as Artemis takes it; and in a selector quotes are doubled.
            name = self._address.destination.rpartition("::")[2].replace("'", "''")
            headers = {key: text.format(name) for key, text in watched.subscribe.items()}
            connection.send("SUBSCRIBE", {"id": "consumers", "receipt": "watching", **headers})
            self._noted(connection, connection.frames(CONNECT_SECONDS, FRAMES), watched.number)
            self._ready.set()
            while not self._closed.is_set():
                found = connection.frames(POLL_SECONDS, FRAMES)
                self._noted(connection, found, watched.number)
        finally:
            connection.close()

    def _noted(self, connection: StompConnection, found: Frames | None, header: str) -> None:
        """Warn where there are more consumers than before, and more than one."""
        for at in range(0 if found is None else len(found)):
            assert found is not None
            if found.kinds[at] == kernels.ERROR:
                raise connection.error(reported(found, at))
            text = found.headers(at).get(header, "")
            if not text.isdecimal():
                continue
            if int(text) > max(1, self._count):
                _LOG.warning(SECOND, self._address, int(text))
            self._count = int(text)


def _without(address: BrokerAddress) -> dict[str, str]:
    """Return the options of a connection that only watches."""
    kept = ("ca", "cert", "key", "virtual-host")
    return {name: text for name, text in address.options.items() if name in kept}
