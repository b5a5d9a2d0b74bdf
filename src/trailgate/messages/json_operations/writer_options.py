"""The options of GoldenGate's JSON messages that are written."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Final

from trailgate.errors import OptionError
from trailgate.messages.publishing.options import ROW, PublishOptions

CHOICES: Final = {"model": ("op", "row"), "binary": ("", "hex", "base64")}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPublishOptions(PublishOptions):
    """How JSON messages are written, each with one operation.

    ``model`` is ``op``, with images, or ``row``, with the columns beside the metadata, of which there are those that the formatter
    writes; ``transactions`` adds ``xid``, ``csn`` and ``tx_ind``. ``binary`` is how bytes are written, ``hex`` or ``base64``. With ``strings`` numbers are in quotes too.
    """

    content: str = ROW
    model: str = "op"
    binary: str = ""
    strings: bool = False
    position: bool = True
    primary_keys: bool = True
    tokens: bool = True
    transactions: bool = False

    contents: ClassVar[tuple[str, ...]] = (ROW,)

    def __post_init__(self) -> None:
        """Raise OptionError for a value that is not allowed."""
        PublishOptions.__post_init__(self)  # super() does not work in classes with slots
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                allowed = " or ".join(one for one in known if one)
                raise OptionError(f"{name} is {value!r}, expected {allowed}")
        for field in fields(self):
            if field.type == "bool" and not isinstance(getattr(self, field.name), bool):
                raise OptionError(
                    f"{field.name} is {getattr(self, field.name)!r}, expected true or false"
                )
