"""Parse broker addresses: ``PROTOCOL://USER:PASSWORD@HOST:PORT/DESTINATION?OPTION=VALUE``.

For example ``amqps://app:secret@mq1:5671/queue/orders?prefetch=500``. The tables ``PROTOCOLS`` and
``OPTIONS`` have a row for each scheme and each option. ``parse_address`` checks an address without
a connection; its certificate files are checked when a receiver is created. The text of an address
in logs and errors never contains the password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from trailgate.errors import OptionError, Where, did_you_mean, nearest_name

QUEUE: Final = "queue"
TOPIC: Final = "topic"
KINDS: Final = (QUEUE, TOPIC)
FILES: Final = ("ca", "cert", "key")


class ProtocolFamily(Enum):
    """A broker protocol, such as AMQP, whether or not it is encrypted."""

    STOMP = "stomp"
    AMQP = "amqp"
    KAFKA = "kafka"


# The hint for an address that lacks something.
_FORMS: Final[Mapping[ProtocolFamily, str]] = MappingProxyType(
    {
        ProtocolFamily.STOMP: "Write an address as stomp://host:61613/queue/orders",
        ProtocolFamily.AMQP: "Write an address as amqp://host:5672/queue/orders",
        ProtocolFamily.KAFKA: "Write an address as kafka://host:9092/orders",
    }
)


class BrokerProtocol(NamedTuple):
    """A scheme of broker addresses, such as ``amqps``: its protocol family, its default port, and whether it is encrypted."""

    family: ProtocolFamily
    port: int
    tls: bool


# By the scheme of an address.
PROTOCOLS: Final[Mapping[str, BrokerProtocol]] = MappingProxyType(
    {
        "stomp": BrokerProtocol(ProtocolFamily.STOMP, 61613, tls=False),
        "stomp+ssl": BrokerProtocol(ProtocolFamily.STOMP, 61614, tls=True),
        "amqp": BrokerProtocol(ProtocolFamily.AMQP, 5672, tls=False),
        "amqps": BrokerProtocol(ProtocolFamily.AMQP, 5671, tls=True),
        "kafka": BrokerProtocol(ProtocolFamily.KAFKA, 9092, tls=False),
        "kafka+ssl": BrokerProtocol(ProtocolFamily.KAFKA, 9093, tls=True),
    }
)


class Direction(Enum):
    """Whether a broker address is used to receive messages or to send them."""

    RECEIVED = "received from"
    SENT = "sent to"


class AddressOption(NamedTuple):
    """An option of a broker address (docs/live.md): the protocols that support it, and its smallest value.

    ``lowest`` is None if the value is not a number. ``directions`` states whether the option
    applies to receiving, to sending or to both. ``choices`` are the allowed values, or () for any.
    """

    families: tuple[ProtocolFamily, ...]
    lowest: int | None = None
    directions: tuple[Direction, ...] = tuple(Direction)
    choices: tuple[str, ...] = ()


_ALL: Final = tuple(ProtocolFamily)
_JMS: Final = (ProtocolFamily.STOMP, ProtocolFamily.AMQP)
_KAFKA: Final = (ProtocolFamily.KAFKA,)
_RECEIVED: Final = (Direction.RECEIVED,)
_SENT: Final = (Direction.SENT,)

# By the name after ? or & in an address.
OPTIONS: Final[Mapping[str, AddressOption]] = MappingProxyType(
    {
        "selector": AddressOption(_JMS, None, _RECEIVED),
        "durable": AddressOption(_JMS, None, _RECEIVED),
        "client-id": AddressOption(_JMS),
        "ca": AddressOption(_ALL),
        "cert": AddressOption(_ALL),
        "key": AddressOption(_ALL),
        "prefetch": AddressOption(_ALL, 1, _RECEIVED),
        "prefetch-bytes": AddressOption((ProtocolFamily.STOMP,), 1, _RECEIVED),
        "heart-beat": AddressOption(_JMS, 1),
        "patience": AddressOption(_ALL, 1),
        "window": AddressOption(_ALL, 1, _RECEIVED),
        "virtual-host": AddressOption(_JMS),
        "id-header": AddressOption((ProtocolFamily.STOMP,), None, _RECEIVED),
        "partition": AddressOption(_KAFKA, 0, _RECEIVED),
        "compacted": AddressOption(_KAFKA, None, _RECEIVED, ("allow",)),
        "message-key": AddressOption(_KAFKA, None, _RECEIVED, ("text", "hex")),
        "mechanism": AddressOption(_KAFKA),
        "create": AddressOption(_KAFKA, None, _SENT),
        "compression": AddressOption(_KAFKA, None, _SENT),
        "tombstones": AddressOption(_KAFKA, None, _SENT),
    }
)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The parsed address of a broker's queue or topic.

    ``kind`` is "queue" or "topic"; ``options`` maps names of ``OPTIONS`` to their text.
    """

    protocol: str
    host: str
    port: int
    destination: str
    kind: str = QUEUE
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the broker address without login and options, for logs and errors."""
        kind = "" if self.kind == QUEUE else f"{self.kind}/"
        return f"{self.protocol}://{self.host}:{self.port}/{kind}{self.destination}"

    @property
    def family(self) -> ProtocolFamily:
        """The protocol family of the broker address."""
        return PROTOCOLS[self.protocol].family

    @property
    def tls(self) -> bool:
        """Whether the connection to the broker is encrypted."""
        return PROTOCOLS[self.protocol].tls

    def number(self, name: str, default: int) -> int:
        """Return a numeric option of the broker address, such as prefetch, or the default if it is not set."""
        return int(self.options.get(name, default))


def is_address(text: str) -> bool:
    """Return whether a text is a broker's address, because of its scheme, such as ``amqp://``.

    A misspelled scheme counts too, so that ``parse_address`` can raise an error that suggests the
    correct one.
    """
    scheme, slashes, _ = text.partition("://")
    return bool(slashes and nearest_name(scheme, PROTOCOLS, cutoff=0.75))


def check_scheme(text: str) -> None:
    """Raise OptionError if an address has a scheme that is neither a broker's nor a store's.

    File paths, which have no scheme, are accepted.
    """
    from trailgate.storage.files.addresses import SCHEMES, list_schemes  # noqa: PLC0415  not for help

    scheme, slashes, _ = text.partition("://")
    if not slashes or scheme.casefold() in SCHEMES or scheme.casefold() == "file":
        return
    shown = f"{scheme}:// is neither the protocol of a broker nor that of a store"
    near = did_you_mean(scheme, [*PROTOCOLS, *SCHEMES])
    hint = f"{near} Known are {list_schemes(*PROTOCOLS)}, and paths of files"
    raise OptionError(shown, hint=hint.strip())


def parse_address(
    text: str,
    user: str | None = None,
    password: str | None = None,
    direction: Direction = Direction.RECEIVED,
) -> BrokerAddress:
    """Parse a broker address.

    ``user`` and ``password`` are the login if ``text`` contains none. ``direction`` determines
    which options are allowed. Raises OptionError.
    """
    try:
        parts = urlsplit(text)
        # `port` is parsed only here, and raises ValueError for a wrong one.
        port = parts.port
    except ValueError as error:
        raise OptionError(f"{_shown(text)} is not an address: {error}") from None
    scheme = parts.scheme.casefold()
    known = PROTOCOLS.get(scheme)
    if known is None or "://" not in text:
        raise unknown_protocol_error(text, direction)
    if not parts.hostname:
        raise OptionError(f"{_shown(text)} names no host", hint=_FORMS[known.family])
    kind, destination = _destination(
        text, unquote(parts.path).removeprefix("/"), _FORMS[known.family]
    )
    options = _options(text, parts, direction)
    # The broker keeps a durable subscription under the client id and the name, also while nobody is
    # connected.
    if "durable" in options and (kind != TOPIC or "client-id" not in options):
        problem = f"{_shown(text)}: a durable subscription needs a topic and a client-id"
        hint = f"{scheme}://host/topic/NAME?durable=NAME&client-id=ID"
        raise OptionError(problem, hint=hint)
    return BrokerAddress(
        protocol=scheme,
        host=parts.hostname,
        port=port or known.port,
        destination=destination,
        kind=kind,
        user=user if parts.username is None else unquote(parts.username),
        password=password if parts.password is None else unquote(parts.password),
        options=options,
    )


def unknown_protocol_error(text: str, direction: Direction = Direction.RECEIVED) -> OptionError:
    """Build the error for a broker address with an unknown scheme."""
    names = ", ".join(f"{name}://" for name in PROTOCOLS)
    problem = f"messages cannot be {direction.value} {_shown(text) or 'an empty address'}"
    scheme, slashes, _ = text.partition("://")
    near = did_you_mean(scheme, PROTOCOLS) if slashes else ""
    return OptionError(problem, hint=f"{near} Supported protocols: {names}".strip())


def _shown(text: str) -> str:
    """Return a broker address without its password, for errors: ``amqp://app:...@mq1/orders``."""
    scheme, slashes, rest = text.partition("://")
    # The last @ ends the login, because a password may contain others.
    login, at, place = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{slashes}{user}:...@{place}" if at and colon else text


def _destination(text: str, path: str, form: str) -> tuple[str, str]:
    """Split the path of a broker address into the kind and the name of the destination.

    The path is ``queue/x``, ``topic/x``, or only ``x`` for a queue. Raises OptionError, whose hint
    is ``form``, if the name is missing.
    """
    kind, slash, name = path.partition("/")
    if not slash or kind not in KINDS:
        kind, name = QUEUE, path
    if not name:
        raise OptionError(f"{_shown(text)} names no queue or topic", hint=form)
    return kind, name


def _options(text: str, parts: SplitResult, direction: Direction) -> Mapping[str, str]:
    family = PROTOCOLS[parts.scheme.casefold()].family
    known = {
        name: row
        for name, row in OPTIONS.items()
        if family in row.families and direction in row.directions
    }
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            hint = did_you_mean(name, known) or f"The options are {', '.join(known)}"
            problem = f"{_shown(text)} has the option {name}, which {family.value} does not support"
            raise OptionError(problem, hint=hint)
        if name in options:
            raise OptionError(f"{_shown(text)} has the option {name} twice", hint="Set it once")
        lowest = known[name].lowest
        if lowest is not None and not (value.isdecimal() and int(value) >= lowest):
            raise OptionError(
                f"{_shown(text)}: {name} is {value!r}, not a number of {lowest} or more"
            )
        choices = known[name].choices
        if choices and value not in choices:
            raise OptionError(f"{_shown(text)}: {name} is {value!r}, not {' or '.join(choices)}")
        options[name] = value
    return options


def with_files_from(text: str, base: str) -> str:
    """Make the paths of the certificate files that a broker address names absolute, relative to ``base``.

    A text that is not the address of a broker is returned unchanged.
    """
    from trailgate.storage.files.addresses import absolute  # noqa: PLC0415  not for help

    path, _, query = text.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    if not is_address(text) or not any(name in FILES for name, _ in pairs):
        return text
    found = [(name, absolute(value, base) if name in FILES else value) for name, value in pairs]
    return f"{path}?{urlencode(found, quote_via=quote)}"


def check_tls_files(address: BrokerAddress) -> None:
    """Raise OptionError if a certificate file that a broker address names cannot be opened.

    Also raises it if the address names such a file but its scheme is not encrypted.
    """
    for name in FILES:
        path = address.options.get(name)
        if path is None:
            continue
        where = Where(source=str(address), field=name)
        if not address.tls:
            problem = (
                f"{path} is for an encrypted connection, but {address.protocol} is not encrypted"
            )
            raise OptionError(problem, where=where)
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise OptionError(f"cannot open {path}: {error.strerror}", where=where) from None


def tls_hint(address: BrokerAddress) -> str:
    """Return the hint to try the broker protocol's other scheme: ``amqps`` for ``amqp``, or the reverse."""
    other = next(
        name
        for name, one in PROTOCOLS.items()
        if one.family is address.family and one.tls is not address.tls
    )
    return f"The port may {'not ' if address.tls else ''}use TLS: try {other}://"
