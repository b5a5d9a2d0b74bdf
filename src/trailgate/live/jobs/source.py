"""Find the broker of a capture: from the given address, or from the adapter's connection properties."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from trailgate.errors import OptionError
from trailgate.live.brokers.address import (
    KINDS,
    QUEUE,
    TOPIC,
    BrokerAddress,
    check_scheme,
    is_address,
    parse_address,
    unknown_protocol_error,
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


def broker_address(given: Sequence[str], connection: Mapping[str, str]) -> BrokerAddress | None:
    """Return the address of a capture's broker, or None if the source consists of files.

    ``given`` are the sources of ``--from``; if there are none, the properties ``connection`` name
    the broker. Raises OptionError if the address is invalid, or is combined with other sources.
    """
    user, password = connection.get(USER), connection.get(PASSWORD)
    if given:
        if not any(map(is_address, given)):
            for one in given:
                check_scheme(one)
            return None
        if len(given) > 1:
            raise OptionError("a broker's address cannot be combined with other sources")
        return parse_address(given[0], user, password)
    if URL not in connection:
        hint = f"Give --from, or {URL} and {DESTINATION} in the properties"
        raise OptionError("no source of messages is named", hint=hint)
    if DESTINATION not in connection:
        raise OptionError(f"{DESTINATION} is required if {URL} names the broker")
    try:
        return parse_address(_join(connection[URL], connection[DESTINATION]), user, password)
    except OptionError as error:
        raise error.with_place(field=URL) from None


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
