"""The shortest STOMP sender: messages in bulk, persistent, confirmed by the broker."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

from trailgate.live.brokers.stomp.frames import FrameReader, encode_frame


class Sender:
    """Sends to one destination; ``send`` returns when the broker has stored all of it."""

    def __init__(
        self,
        port: int,
        destination: str,
        login: tuple[str, str],
        *,
        host: str = "x",
        **headers: str,
    ) -> None:
        self._destination, self._headers, self._sent = destination, headers, 0
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._reader = FrameReader()
        headers = {"accept-version": "1.2", "host": host, "login": login[0], "passcode": login[1]}
        self._socket.sendall(encode_frame("CONNECT", headers))
        assert "version" in self._answer()

    def send(self, bodies: Iterable[bytes | str], **headers: str) -> None:
        frames: list[bytes] = []
        for body in bodies:
            frames.append(self._frame(body, headers))
        if not frames:
            return
        self._sent += 1
        receipt = f"sent-{self._sent}"
        frames[-1] = self._frame(body, {**headers, "receipt": receipt})
        self._socket.sendall(b"".join(frames))
        while (found := self._answer()).get("receipt-id") != receipt:
            assert "message" not in found, found

    def _frame(self, body: bytes | str, headers: Mapping[str, str]) -> bytes:
        raw = body.encode() if isinstance(body, str) else body
        known = {"destination": self._destination, "persistent": "true", **self._headers, **headers}
        if isinstance(body, bytes):
            known["content-length"] = str(len(raw))
        return encode_frame("SEND", known, raw)

    def _answer(self) -> dict[str, str]:
        while True:
            found = self._reader.take(1)
            if len(found):
                return found.headers(0)
            size = self._socket.recv_into(self._reader.room())
            assert size, "the broker has closed the connection"
            self._reader.extend(size)

    def close(self) -> None:
        self._socket.close()
