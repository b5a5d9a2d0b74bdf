"""The options of change events that are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from trailgate.errors import OptionError
from trailgate.messages.publishing.options import ROW, PublishOptions

OMIT, PLACEHOLDER, ERROR = "omit", "placeholder", "error"
CHOICES: Final = {"missing": (ERROR, OMIT, PLACEHOLDER), "key_updates": (ERROR, "update")}


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumPublishOptions(PublishOptions):
    """How change events are written, each with one operation.

    ``prefix`` is the name of the source, which topics begin with. With ``schemas`` each event is the payload beside its schema. With
    ``transactions`` events have their place in their transaction, and there are BEGIN and END events.
    ``missing`` is what becomes of a column that an operation does not have: ``error``, ``omit``: it is not in the image, or ``placeholder``: the value is that of
    columns that were not logged. ``key_updates`` are ``error``, or ``update``: events with two images.
    """

    content: str = ROW
    prefix: str = "trailgate"
    schemas: bool = False
    transactions: bool = True
    missing: str = ERROR
    placeholder: str = "__debezium_unavailable_value"
    key_updates: str = ERROR

    contents: ClassVar[tuple[str, ...]] = (ROW,)

    def __post_init__(self) -> None:
        """Raise OptionError for a value that is not allowed."""
        PublishOptions.__post_init__(self)  # super() does not work in classes with slots
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise OptionError(f"{name} is {value!r}, expected {' or '.join(known)}")
        for name in ("schemas", "transactions"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name} is {getattr(self, name)!r}, expected true or false")
