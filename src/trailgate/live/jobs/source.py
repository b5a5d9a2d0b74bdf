"""The source of a live capture: the address of its broker, and the position in it up to which messages are captured.

The broker is named by ``--from`` or by the adapter's connection properties. Each commit of the trail
records a ``SourcePosition``, after which the next run continues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final
from urllib.parse import quote

from trailgate.errors import OptionError, StorageError, Where
from trailgate.live.brokers.address import (
    KINDS,
    QUEUE,
    TOPIC,
    BrokerAddress,
    check_scheme,
    is_address,
    parse_address,
    unknown_protocol_error,
    with_files_from,
)

URL: Final = "java.naming.provider.url"
DESTINATION: Final = "jms.destination"
USER: Final = "jms.user"
PASSWORD: Final = "jms.password"  # noqa: S105  a property's name
USED: Final = frozenset({URL, DESTINATION, USER, PASSWORD})

# The kind of a destination in JNDI names of ActiveMQ's context factories, and in JMS URIs.
_NAMED: Final = re.compile(
    r"(dynamicQueues|dynamicTopics|queue|topic)(?:://|/)(.+)", re.IGNORECASE | re.DOTALL
)


def broker_address(
    given: Sequence[str], connection: Mapping[str, str], base: str | None = None
) -> BrokerAddress | None:
    """Return the address of a capture's broker, or None if the source consists of files.

    ``given`` are the sources of ``--from``; if there are none, the properties ``connection`` name
    the broker. ``base`` is the folder of relative paths of certificate files. Raises OptionError if
    the address is invalid, or is combined with other sources.
    """
    user, password = connection.get(USER), connection.get(PASSWORD)
    if given:
        if not any(map(is_address, given)):
            for one in given:
                check_scheme(one)
            return None
        if len(given) > 1:
            raise OptionError("a broker's address cannot be combined with other sources")
        return parse_address(_with_base(given[0], base), user, password)
    if URL not in connection:
        hint = f"Give --from, or {URL} and {DESTINATION} in the properties"
        raise OptionError("no source of messages is named", hint=hint)
    if DESTINATION not in connection:
        raise OptionError(f"{DESTINATION} is required if {URL} names the broker")
    try:
        joined = _join(connection[URL], connection[DESTINATION])
        return parse_address(_with_base(joined, base), user, password)
    except OptionError as error:
        raise error.with_place(field=URL) from None


def _with_base(text: str, base: str | None) -> str:
    return text if base is None else with_files_from(text, base)


def _join(url: str, destination: str) -> str:
    """Build a broker address from the properties java.naming.provider.url and jms.destination.

    For example, ``amqp://mq1`` and ``dynamicTopics/orders`` become ``amqp://mq1/topic/orders``.
    """
    if not is_address(url):
        raise unknown_protocol_error(url)
    matched = _NAMED.fullmatch(destination)
    kind, name = QUEUE, destination
    if matched is not None:
        kind, name = (TOPIC if "topic" in matched[1].casefold() else QUEUE), matched[2]
    assert kind in KINDS
    base, question, options = url.partition("?")
    base = base if base.endswith("://") else base.removesuffix("/")
    return f"{base}/{kind}/{quote(name)}{question}{options}"


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The position in a feed that a commit of the trail records.

    - ``source`` is the journal or partition, and ``number`` the number of its next message.
    - ``quarantine`` and ``repaired`` are the sizes in bytes that the files of the quarantine and of
      the repaired messages had at the commit; bytes after them do not count.
    - ``reason`` is the fault of a bad unit to which the next message may still belong, and
      ``transaction`` the id of the transaction at the end of that unit, if known.
    - ``last_id`` is the highest message id so far, if ids are compared.
    - ``pending`` is a digest of the repaired messages that ``capture_repaired`` has begun to add,
      or None if all are added.
    - ``source_id`` distinguishes the source from others of its name, if known
      (``MessageFeed.source_id``).
    """

    source: str
    number: int
    quarantine: int = 0
    reason: str | None = None
    last_id: str | None = None
    repaired: int = 0
    pending: str | None = None
    transaction: str | None = None
    source_id: str | None = None

    def encode(self) -> str:
        """Encode the feed's position as text for a commit of the trail."""
        return json.dumps(asdict(self), ensure_ascii=False)


def read_source_position(
    text: str | None, source: str | None, prefix: str, source_id: str | None = None
) -> SourcePosition | None:
    """Parse the ``SourcePosition`` that a run has committed with the trail, or return None if nothing was committed.

    Raises StorageError if the commit was not written by a live capture, or if its position
    belongs to another source than ``source``, or to one with another id than ``source_id``.
    """
    if text is None:
        return None
    where = Where(source=prefix)
    try:
        fields = json.loads(text)
        # Unknown or missing fields raise TypeError.
        position = SourcePosition(**fields)
        if not isinstance(position.number, int) or not isinstance(position.quarantine, int):
            raise TypeError("not numbers")  # noqa: TRY301  reported below
    except (ValueError, TypeError, RecursionError):
        problem = f"the trail was not written from a broker: its source's position is {text!r}"
        raise StorageError(problem, where=where, hint="Receive into a new trail") from None
    if source is not None and position.source != source:
        problem = f"the trail was received from {position.source}, not from {source}"
        raise StorageError(problem, where=where, hint="Receive each into a trail of its own")
    # An id that is unknown, then or now, is not compared.
    if None not in (source_id, position.source_id) and source_id != position.source_id:
        problem = f"{source} was deleted and created again since the trail's last commit"
        hint = "Its messages have other numbers: receive them into a new trail"
        raise StorageError(problem, where=where, hint=hint)
    return position
