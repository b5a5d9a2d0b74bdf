"""One connection of STOMP 1.2: a socket, frames both ways, and heart-beats while nothing else is sent."""

from __future__ import annotations

import select
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Final

from trailgate.brokers.address import BrokerAddress
from trailgate.brokers.sockets import CONNECT_SECONDS, connected, received_into
from trailgate.brokers.stomp.dialects import Dialect, dialect_of
from trailgate.brokers.stomp.frames import FrameReader, Frames, encode_frame
from trailgate.brokers.stomp.kernels import frames as kernels
from trailgate.errors import BrokerError, BrokerRefusedError, Where

WINDOW_BYTES: Final = 4 << 20  # bytes that are received before a window is made of them
SEND_SECONDS: Final = 30.0  # a broker that takes no bytes for so long is lost
BEAT: Final = 10  # seconds between heart-beats, both ways, as they are offered
GRACE: Final = 3.0  # heart-beats of the broker that may be missing before it is taken for dead


class StompConnection:
    """A connection that is logged in. All errors are BrokerErrors; after one it is of no more use."""

    def __init__(self, address: BrokerAddress) -> None:
        self._where = Where(source=str(address))
        self._socket = connected(address)
        self._reader = FrameReader()
        self._sending, self._closed = threading.Lock(), threading.Event()
        self._last_sent = self.last_received = time.monotonic()
        self._silence, self.is_closed_by_broker = 0.0, False
        self._offered = float(address.number("heart-beat", BEAT))
        try:
            self.server, beat = self._log_in(address)
        except BaseException:
            self._socket.close()
            raise
        if beat:
            threading.Thread(target=self._beat, args=(beat,), daemon=True).start()

    @property
    def dialect(self) -> Dialect:
        """Return which broker this is."""
        return dialect_of(self.server)

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send one frame; it has left this process when this returns."""
        self._send(encode_frame(command, headers, body))

    def frames(self, seconds: float, limit: int) -> Frames | None:
        """Return what is there, all of it that fits into a window, after waiting so long for the first frame."""
        until = time.monotonic() + seconds
        while True:
            self._fill()
            found = self._reader.take(limit)
            if len(found):
                return found
            if self.is_closed_by_broker:
                raise self.error("the broker has closed the connection")
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._check_silence()
            self._wait(min(left, self._offered))

    def close(self) -> None:
        """Close the socket; the broker gives what was not acknowledged to somebody again."""
        self._closed.set()
        self._socket.close()

    def owned_until(self) -> float:
        """Return until when the broker may take this consumer for alive, as a moment of ``time.monotonic``.

        It has closed the connection itself, or waits for two heart-beats that do not come.
        """
        return 0.0 if self.is_closed_by_broker else self._last_sent + 2 * self._offered + 1

    def error(self, problem: str, *, refused: bool = False, hint: str = "") -> BrokerError:
        """Return an error of this connection."""
        kind = BrokerRefusedError if refused else BrokerError
        return kind(problem, where=self._where, hint=hint)

    def _log_in(self, address: BrokerAddress) -> tuple[str, float]:
        """Return who the server is, and after how many seconds a heart-beat is due."""
        beat = str(int(self._offered * 1000))
        host = address.options.get("virtual-host", address.host)
        headers = {"accept-version": "1.2", "host": host, "heart-beat": f"{beat},{beat}"}
        if address.user is not None:
            headers |= {"login": address.user, "passcode": address.password or ""}
        if "client-id" in address.options:
            headers["client-id"] = address.options["client-id"]
        self.send("CONNECT", headers)
        found = self.frames(CONNECT_SECONDS, 1)
        if found is None:
            raise self.error("the broker does not answer to CONNECT")
        known = found.headers(0)
        if found.kinds[0] != kernels.CONNECTED:
            raise self.error(f"the broker refuses the login: {reported(found, 0)}", refused=True)
        if known.get("version") != "1.2":
            problem = f"the broker speaks STOMP {known.get('version', '1.0')}, not 1.2"
            raise self.error(problem, refused=True)
        ours, theirs = _beats(known.get("heart-beat", "0,0"))
        self._silence = GRACE * max(self._offered, ours) if ours else 0.0
        return known.get("server", ""), max(self._offered, theirs) / 2 if theirs else 0.0

    def _fill(self) -> None:
        """Receive what is there without waiting, up to what one window may hold."""
        while True:
            room = self._reader.room()
            size = received_into(self._socket, room, self.error)
            if size is None:
                return
            if not size:
                self.is_closed_by_broker = True  # what it sent before, as an ERROR frame, counts
                return
            self.last_received = time.monotonic()
            self._reader.received(size)
            if self._reader.waiting >= WINDOW_BYTES:
                return

    def _wait(self, seconds: float) -> None:
        try:
            select.select([self._socket], [], [], seconds)
        except (OSError, ValueError) as error:
            raise self.error(f"the connection is lost: {error}") from error

    def _check_silence(self) -> None:
        silent = time.monotonic() - self.last_received
        if self._silence and silent > self._silence:
            raise self.error(f"nothing came from the broker for {silent:.0f} seconds")

    def _send(self, data: bytes) -> None:
        until, rest = time.monotonic() + SEND_SECONDS, memoryview(data)
        with self._sending:
            while rest:
                try:
                    rest = rest[self._socket.send(rest) :]
                except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    if time.monotonic() > until:
                        raise self.error("the broker takes no more bytes") from None
                    select.select([], [self._socket], [], 1.0)
                except OSError as error:
                    self.is_closed_by_broker = isinstance(error, ConnectionError)
                    raise self.error(f"the connection is lost: {error}") from error
            self._last_sent = time.monotonic()

    def _beat(self, seconds: float) -> None:
        """Send a line feed where nothing was sent for so long (STOMP 1.2, Heart-beating)."""
        while not self._closed.wait(seconds / 2):
            if time.monotonic() - self._last_sent < seconds:
                continue
            try:
                self._send(b"\n")
            except (BrokerError, ValueError):
                return  # whoever receives sees it too


def reported(frames: Frames, frame: int) -> str:
    """Return the text of an ERROR frame."""
    known, body = frames.headers(frame), frames.body(frame).decode("utf-8", "replace").strip()
    text = known.get("message", "").strip()
    first = body.partition("\n")[0].strip()
    return text if not first or first in text else f"{text} {first}".strip()


def _beats(text: str) -> tuple[float, float]:
    """Return the seconds of a heart-beat header: how often the server sends, how often it wants to hear."""
    sends, _, wants = text.partition(",")
    return tuple(int(part) / 1000 if part.strip().isdecimal() else 0.0 for part in (sends, wants))  # type: ignore[return-value]
