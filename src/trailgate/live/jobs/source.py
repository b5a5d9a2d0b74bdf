"""Find the broker of a capture: from the given address, or from the adapter's connection properties."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from trailgate.errors import OptionError, did_you_mean
from trailgate.live.brokers.address import (
    KINDS,
    PROTOCOLS,
    QUEUE,
    TOPIC,
    BrokerAddress,
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
    """Return the address of the broker, or None if the source consists of files.

    Raises OptionError if the address is invalid, or is combined with other sources.
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


def check_scheme(text: str) -> None:
    """Raise OptionError for an unknown scheme, such as a misspelled protocol."""
    from trailgate.storage.files.addresses import SCHEMES, list_schemes  # noqa: PLC0415  not for help

    scheme, slashes, _ = text.partition("://")
    if not slashes or scheme.casefold() in SCHEMES or scheme.casefold() == "file":
        return
    shown = f"{scheme}:// is neither the protocol of a broker nor that of a store"
    near = did_you_mean(scheme, [*PROTOCOLS, *SCHEMES])
    hint = f"{near} Known are {list_schemes(*PROTOCOLS)}, and paths of files"
    raise OptionError(shown, hint=hint.strip())


def _join(url: str, destination: str) -> str:
    """Return the address of a destination at a provider's URL."""
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
