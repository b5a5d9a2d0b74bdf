"""Remarks on unsupported parameters of Extract and Replicat files, and the loop that calls a handler per statement.

A parameter without effect here is reported. One that would change the data is an error, unless
``--ignore-unsupported`` is set; then it is reported too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from trailgate.definitions.parameter_files import (
    ParameterStatement,
    read_statements,
)
from trailgate.definitions.parameter_macros import ReadFile
from trailgate.errors import OptionError, Where

UNKNOWN_OPTION: Final = "unknown option"
Draft = TypeVar("Draft")


class ParameterRemark(NamedTuple):
    """A remark on an unsupported parameter or option of a parameter file, and the reason for it."""

    line: int
    text: str
    reason: str


def remark_of(statement: ParameterStatement, text: str, reason: str) -> ParameterRemark:
    """Build a remark on ``text``, a part of a statement of a parameter file.

    The remark names the file if the statement is in an included file.
    """
    shown = " ".join(text.rstrip("; \t").split())
    if statement.source:
        shown += f" ({statement.source})"
    return ParameterRemark(statement.line, shown, reason)


@dataclass(slots=True, kw_only=True)
class ParameterRemarks:
    """The remarks on unsupported parameters and options of a parameter file.

    ``unused`` are those without effect here, ``refused`` those that would have an effect.
    """

    unused: list[ParameterRemark] = field(default_factory=list)
    refused: list[ParameterRemark] = field(default_factory=list)

    def note(self, statement: ParameterStatement, text: str, reason: str) -> None:
        """Add a remark on a parameter or option that has no effect."""
        self.unused.append(remark_of(statement, text, reason))

    def refuse(
        self, statement: ParameterStatement, text: str, reason: str = UNKNOWN_OPTION
    ) -> None:
        """Add a remark on a parameter or option that is an error, unless ``text`` is empty."""
        if text:
            self.refused.append(remark_of(statement, text, reason))


def obey_statements(
    text: str,
    read: ReadFile | None,
    draft: Draft,
    handlers: Mapping[str, Callable[[Draft, ParameterStatement], None]],
    otherwise: Callable[[Draft, ParameterStatement], None],
) -> None:
    """Split a parameter file into statements, and call the handler of each one's keyword.

    ``otherwise`` is called if a keyword has no handler. ``read`` returns the text of an included
    file. Handlers store the parameters in ``draft``. Raises OptionError with the line.
    """
    for statement in read_statements(text, read):
        try:
            handlers.get(statement.keyword, otherwise)(draft, statement)
        except OptionError as error:
            raise statement.place(error) from None


def refusal_error(refused: Sequence[ParameterRemark], effect: str, verb: str) -> OptionError:
    """Build the error for unsupported parameters of a file: it names the first and counts the rest.

    ``effect`` is the consequence of ignoring them, and ``verb`` the action of the run
    (``capture``).
    """
    first, others = refused[0], len(refused) - 1
    problem = f"{first.text} is not supported: {first.reason}"
    more = (
        f" {others} more in this file {'is' if others == 1 else 'are'} not supported."
        if others
        else ""
    )
    hint = f"{effect}.{more} Remove it, or {verb} without it: --ignore-unsupported (ignore_unsupported)"
    keyword = re.split(r"[\s,;(]", first.text, maxsplit=1)[0]
    return OptionError(problem, where=Where(line=first.line, field=keyword), hint=hint)
