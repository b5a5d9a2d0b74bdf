"""The shortest AMQP sender: durable messages with ids, in bulk, settled by the broker."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from typing import Any

from proton import Message, symbol
from proton.reactor import SenderOption
from proton.utils import BlockingConnection


def send(port: int, login: tuple[str, str], target: str, bodies: Iterable[str]) -> None:
    """Send strings as JMS clients do, each with an id; they are stored when this returns."""
    name = uuid.uuid4().hex
    strings = (
        Message(body, id=f"ID:{name}:{number}", durable=True) for number, body in enumerate(bodies)
    )
    send_messages(port, login, target, strings)


def send_messages(
    port: int, login: tuple[str, str], target: str, messages: Iterable[Any], kind: str = "queue"
) -> None:
    """Send messages as they are, to a queue or topic."""

    class Kind(SenderOption):  # type: ignore[misc]  # the library has no types
        def apply(self, sender: Any) -> None:
            sender.target.capabilities.put_object(symbol(kind))

    user, password = login
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{port}", 30, user=user, password=password, allowed_mechs="PLAIN"
    )
    link = connection.create_sender(target, options=[Kind()]).link
    waiting = iter(messages)
    while part := list(itertools.islice(waiting, 500)):
        sent = []
        for message in part:
            if not link.credit:
                connection.wait(lambda: link.credit)
            sent.append(link.send(message))
        connection.wait(lambda sent=sent: all(one.settled for one in sent))
    connection.close()
