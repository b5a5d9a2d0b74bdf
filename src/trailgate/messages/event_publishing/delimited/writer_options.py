"""The options of delimited publications that are written."""

from __future__ import annotations

from dataclasses import dataclass

from trailgate.columnar.code_pages.registry import code_page
from trailgate.errors import OptionError
from trailgate.messages.event_publishing.delimited.delimiters import DEFAULTS, Delimiters
from trailgate.messages.publishing.options import PublishOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DelimitedPublishOptions(PublishOptions):
    """How delimited publications are written; the delimiters are those of the reader's properties.

    ``missing`` is what becomes of a column that an operation does not have: ``error``, or ``null``, which a reader takes for NULL.
    """

    fielddelim: str = DEFAULTS["fielddelim"]
    recorddelim: str = DEFAULTS["recorddelim"]
    quote: str = DEFAULTS["quote"]
    decimalpoint: str = DEFAULTS["decimalpoint"]
    missing: str = "error"

    def __post_init__(self) -> None:
        """Raise OptionError for a value that is not allowed."""
        PublishOptions.__post_init__(self)  # super() does not work in classes with slots
        if self.missing not in ("error", "null"):
            raise OptionError(f"missing is {self.missing!r}, expected error or null")
        found = self.delimiters
        for name in DEFAULTS:
            if getattr(found, name) in (b"+", b"-"):
                raise OptionError(f"{name} is a sign of numbers, which are not in quotes")

    @property
    def delimiters(self) -> Delimiters:
        """Return the delimiters as bytes; raises OptionError."""
        given = {name: getattr(self, name) for name in DEFAULTS}
        return Delimiters.of(given, code_page("utf-8"))
