"""Spark's options, which are texts, and the path among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trailgate.errors import OptionError
from trailgate.options import Options


def read_with_path(
    options: Options, given: Mapping[str, Any], example: str
) -> tuple[str, dict[str, Any]]:
    """Return the path, and the values of all options of a format; raises OptionError."""
    others = {name: value for name, value in given.items() if name.casefold() != "path"}
    path = given.get("path")
    if not path:
        raise OptionError(f"the format {options.what} needs a path", hint=f"As in {example}")
    return str(path), options.read(others)
