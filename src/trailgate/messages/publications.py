"""The formats that operations are published in, by name: one row each, with the parser that reads it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.errors import OptionError, did_you_mean
from trailgate.messages.debezium.writer import DebeziumWriter
from trailgate.messages.debezium.writer_options import DebeziumPublishOptions
from trailgate.messages.event_publishing.delimited.writer import DelimitedWriter
from trailgate.messages.event_publishing.delimited.writer_options import DelimitedPublishOptions
from trailgate.messages.event_publishing.xml.writing.writer import XmlWriter
from trailgate.messages.event_publishing.xml.writing.writer_options import XmlPublishOptions
from trailgate.messages.json_operations.writer import JsonWriter
from trailgate.messages.json_operations.writer_options import JsonPublishOptions
from trailgate.messages.publishing.messages import MessageWriter
from trailgate.messages.publishing.options import PublishOptions


class Publication(NamedTuple):
    """One format: its options, its writer, and the ``parser.type`` of what reads its messages."""

    name: str
    parser: str
    options: type[PublishOptions]
    writer: Callable[[Any], MessageWriter]


PUBLICATIONS: Final = (
    Publication("delimited", "event_publishing", DelimitedPublishOptions, DelimitedWriter),
    Publication("xml", "event_publishing", XmlPublishOptions, XmlWriter),
    Publication("json", "json", JsonPublishOptions, JsonWriter),
    Publication("debezium", "debezium", DebeziumPublishOptions, DebeziumWriter),
)


_SWITCHES: Final[Mapping[str, bool]] = MappingProxyType({"true": True, "false": False})


def publication(name: str) -> Publication:
    """Return the row of a format; raises OptionError for one that is not known."""
    for row in PUBLICATIONS:
        if row.name == name.casefold():
            return row
    known = [row.name for row in PUBLICATIONS]
    hint = did_you_mean(name, known) or f"There are {', '.join(known)}"
    raise OptionError(f"no messages are published in the format {name!r}", hint=hint)


def publish_options(name: str, given: Mapping[str, Any]) -> PublishOptions:
    """Return a format's options, of values or their texts; raises OptionError for one that it does not have."""
    row = publication(name)
    known = {field.name: field.default for field in fields(row.options)}
    for option in given:
        if option not in known:
            hint = did_you_mean(option, known) or f"There are {', '.join(known)}"
            raise OptionError(f"the format {row.name} has no option {option}", hint=hint)
    return row.options(
        **{option: _typed(option, value, known[option]) for option, value in given.items()}
    )


def _typed(name: str, value: Any, default: Any) -> Any:
    """Return an option's value in its type, that of its default; command lines and Spark give texts."""
    kind = type(default)
    if not isinstance(value, str) or kind is str or default is None:
        return value
    try:
        return _SWITCHES[value.casefold()] if kind is bool else kind(value)
    except (KeyError, ValueError):
        expected = "true or false" if kind is bool else "a number"
        raise OptionError(f"{name} is {value!r}, expected {expected}") from None


def writer_for(name: str, options: PublishOptions) -> MessageWriter:
    """Return a writer of a format's messages."""
    return publication(name).writer(options)
