"""A connection through something that fails: it goes silent without a word, resets, or is slow."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

ROOM: Final = 1 << 16
RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close by RST


class _Pair:
    """A connection and what it is passed on to."""

    def __init__(
        self, one: socket.socket, other: socket.socket, delay: Callable[[], float]
    ) -> None:
        self.ends = (one, other)
        self.is_silent = False
        for source, target, seconds in ((one, other, float), (other, one, delay)):
            threading.Thread(target=self._pump, args=(source, target, seconds), daemon=True).start()

    def _pump(
        self, source: socket.socket, target: socket.socket, delay: Callable[[], float]
    ) -> None:
        with suppress(OSError):
            while data := source.recv(ROOM):
                time.sleep(delay())
                if not self.is_silent:
                    target.sendall(data)
        if not self.is_silent:  # else the other end is not told
            self.close()

    def close(self) -> None:
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def reset(self) -> None:
        for end in self.ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        for end in self.ends:
            # Closing alone does not end what another thread waits in.
            with suppress(OSError):
                end.shutdown(socket.SHUT_RD)
            end.close()


class Proxy:
    """Passes connections to ``port`` of this machine on to another port, whose answers come ``delay`` seconds later."""

    delay = 0.0

    def __init__(self, to: int) -> None:
        self._to, self._pairs = to, list[_Pair]()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listening.accept()
                try:
                    other = socket.create_connection(("127.0.0.1", self._to), 5)
                except OSError:
                    one.close()  # the broker is down
                    continue
                other.settimeout(None)
                self._pairs.append(_Pair(one, other, lambda: self.delay))

    def silence(self) -> None:
        """Let nothing through the connections that there are; nobody is told. New ones work."""
        for pair in self._pairs:
            pair.is_silent = True

    def reset(self) -> None:
        """Reset the connections that there are, at both ends."""
        for pair in self._pairs:
            pair.reset()
        self._pairs.clear()

    def close(self) -> None:
        self._listening.close()
        for pair in self._pairs:
            pair.close()
