"""A STOMP broker with one queue, in a thread of the tests. It delivers the messages that are not acknowledged to each new consumer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

# A broker that is not known to report consumers: it is asked once.
CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:0,0\nserver:Another/1\n\n\0"


def message(number: int, body: str, *lines: str, name: str = "m") -> bytes:
    """Return the frame of the message with this number, from 0; ``lines`` are header lines as they are sent."""
    data = body.encode()
    head = [
        "MESSAGE",
        f"message-id:{name}-{number}",
        "subscription:0",
        "destination:q",
        f"ack:{number}",
        f"content-length:{len(data)}",
        *lines,
    ]
    return "\n".join((*head, "", "")).encode() + data + b"\0"


class StompBroker:
    """Sends the frames of a queue, ``pause`` seconds after a subscription, and counts the acknowledged messages and the consumers."""

    def __init__(self, frames: Sequence[bytes], pause: float = 0.0) -> None:
        self._frames, self._pause = frames, pause
        self.acknowledged = self.consumers = self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.place = f"stomp://127.0.0.1:{port}/q"
        self.address = f"{self.place}?id-header=message-id&patience=1"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                opened, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=(opened,), daemon=True).start()

    def _answer(self, opened: socket.socket) -> None:
        with opened, opened.makefile("rb") as frames, suppress(OSError):
            while frame := read_frame(frames):
                command, headers = frame
                if command == "CONNECT":
                    opened.sendall(CONNECTED)
                if command == "ACK":
                    self.acknowledged = int(headers["id"]) + 1
                if "receipt" in headers:
                    receipt = f"RECEIPT\nreceipt-id:{headers['receipt']}\n\n\0"
                    opened.sendall(receipt.encode())
                if headers.get("receipt") == "subscribed":
                    self.consumers += 1
                    time.sleep(self._pause)
                    opened.sendall(b"".join(self._frames[self.acknowledged :]))


def read_frame(frames: BinaryIO) -> tuple[str, Mapping[str, str]] | None:
    """Return the command and the headers of the next frame, or None at the end."""
    found = bytearray()
    while (byte := frames.read(1)) and byte != b"\0":
        found += byte
    if not byte:
        return None
    command, *lines = found.decode().lstrip("\n").partition("\n\n")[0].split("\n")
    return command, dict(line.split(":", 1) for line in lines)
