"""The parameters of an address in a store, after its question mark."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import parse_qsl

from trailgate.errors import OptionError


class Refusal(NamedTuple):
    """How a parameter is refused: {} is its name in ``problem``, and the names of those that are obeyed in ``hint``."""

    problem: str
    hint: str


def obeyed_parameters(query: str, obeyed: Collection[str], refusal: Refusal) -> dict[str, str]:
    """Return the parameters of a query; raises OptionError for one that is not obeyed."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in obeyed:
            hint = refusal.hint.format(", ".join(sorted(obeyed)))
            raise OptionError(refusal.problem.format(name), hint=hint)
    return given
