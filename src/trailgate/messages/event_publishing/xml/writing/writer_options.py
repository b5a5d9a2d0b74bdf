"""The options of XML publications that are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.errors import OptionError
from trailgate.messages.publishing.options import PublishOptions

INLINE: Final = "inline"
MESSAGES: Final = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlPublishOptions(PublishOptions):
    """How XML publications are written.

    ``database`` is the name of the source (dbName), ``queue`` that of the send queue in schema messages. With ``schemas`` a table's
    schema message (subSchema) comes before its first row. ``lobs`` is where large objects are: ``inline`` in their rows, or in ``messages`` of their own.
    """

    database: str = ""
    queue: str = ""
    schemas: bool = False
    lobs: str = INLINE

    def __post_init__(self) -> None:
        """Raise OptionError for a value that is not allowed."""
        PublishOptions.__post_init__(self)  # super() does not work in classes with slots
        if self.lobs not in (INLINE, MESSAGES):
            raise OptionError(f"lobs is {self.lobs!r}, expected {INLINE} or {MESSAGES}")
