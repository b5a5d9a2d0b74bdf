"""Make short commands fast: import no package that is not needed, and exit without cleaning up.

pyarrow imports pandas at the first ``pa.array``, to find out whether its argument is a Series, and
typer (0.29 and later) imports pydantic to convert the value of any option. Each takes longer than
the rest of a short command.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, Literal, get_args, get_origin

DIGITS: Final = 18  # so many decimal digits always fit in 64 bits
# The methods that @dataclass compiles for a frozen class besides __init__. A short command calls few of them.
RARELY_CALLED: Final = frozenset({"__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"})


class PandasHider:
    """Makes ``import pandas`` fail, as if it were not installed, until pyspark is imported.

    pyarrow imports pandas only to convert pandas objects, which commands do not use. If a table is
    converted to pandas later, pyarrow tries the import again.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas. When pyspark is imported, stop hiding pandas."""
        if fullname == "pyspark":
            sys.meta_path.remove(self)
        elif fullname == "pandas":
            raise ModuleNotFoundError("pandas is not imported by commands", name=fullname)


def hide_pandas() -> None:
    """Hide pandas in this process, unless it has already been imported.

    Only for the program itself.
    """
    if not {"pandas", "pyspark"} & set(sys.modules):
        sys.meta_path.insert(0, PandasHider())


def shorten_compute_help() -> None:
    """Keep pyarrow.compute from parsing docstrings at its import. Only for the program itself.

    Parsing takes half of the import's time: 109 classes of options have a docstring, and the
    docstrings of functions repeat it. Only ``help(pyarrow.compute.take)`` shows them.
    """
    parser = ModuleType("pyarrow.vendored.docscrape")
    parser.NumpyDocString = lambda _docstring: {"Parameters": ()}  # type: ignore[attr-defined]
    sys.modules.setdefault(parser.__name__, parser)


def compile_dataclasses_late() -> None:
    """Make ``@dataclass`` compile most methods of a class at their first call.

    Only for the program itself.

    A short command imports about 90 dataclasses, whose methods took a sixth of its time. Python
    3.13 and later compile all methods of a class at once, so nothing is changed there.
    """
    compile_method = getattr(dataclasses, "_create_fn", None)
    if compile_method is None:
        return

    def create(name: str, args: Any, body: Any, **more: Any) -> Callable[..., Any]:
        if name not in RARELY_CALLED:
            return compile_method(name, args, body, **more)  # type: ignore[no-any-return]
        compiled: list[Callable[..., Any]] = []

        def method(self: Any, *arguments: Any) -> Any:
            if not compiled:
                compiled.append(compile_method(name, args, body, **more))
            return compiled[0](self, *arguments)

        method.__name__ = name
        return method

    dataclasses._create_fn = create  # type: ignore[attr-defined]  # noqa: SLF001


def convert_without_pydantic(parameter: Any) -> None:
    """Replace a typer parameter's conversion by one that uses pydantic only for unusual values."""
    if hasattr(parameter, "get_runtime_param"):  # typer 0.29 and later
        conversion = _Conversion(parameter.type_descriptor, parameter.get_runtime_param)
        parameter.get_runtime_param = lambda: conversion


class _Conversion:
    """Converts the value of a parameter if it has the usual form, and otherwise calls typer.

    ``descriptor`` is typer's description of the parameter, and ``of_typer`` returns its conversion.
    """

    def __init__(self, descriptor: Any, of_typer: Callable[[], Any]) -> None:
        annotation = descriptor.annotation
        kind = annotation if isinstance(annotation, type) else get_origin(annotation)
        if isinstance(kind, type) and issubclass(kind, Enum):
            kind = Enum
        # The parser of paths only refuses an empty text, as ``_path`` below does.
        parsed = descriptor.parameter_info.parser is not None and kind is not Path
        self._convert = None if parsed else CONVERSIONS.get(kind)
        self._of_typer = of_typer

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert a parameter's value. Raises typer's errors for a value of the wrong form."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._convert is not None:
            converted = self._convert(value, param.type_descriptor)
            if converted is not None:
                return converted
        return self._of_typer().coerce(value, param=param, ctx=ctx)


def _text(value: Any, _descriptor: Any) -> str | None:
    return value if type(value) is str else None


def _whole_number(value: Any, descriptor: Any) -> int | None:
    if type(value) is str and value.isascii() and value.isdigit() and len(value) <= DIGITS:
        value = int(value)
    bounds = descriptor.parameter_info
    fits = type(value) is int and not (
        bounds.clamp
        or (bounds.min is not None and value < bounds.min)
        or (bounds.max is not None and value > bounds.max)
    )
    return value if fits else None


def _list_of_text(value: Any, descriptor: Any) -> list[str] | None:
    values = value if isinstance(value, (list, tuple)) else ()
    plain = get_args(descriptor.annotation) == (str,) and all(type(one) is str for one in values)
    return list(values) if plain and values is value else None


def _path(value: Any, descriptor: Any) -> Path | None:
    """Convert a parameter's text to a path, or return None if typer must do it.

    That is the case if the parameter requires more checks than typer's default, which is that an
    existing file can be read, or if this check fails.
    """
    checks = descriptor.parameter_info
    others = (checks.exists, checks.writable, checks.resolve_path, checks.allow_dash)
    plain = checks.file_okay and checks.dir_okay and checks.path_type is None and not any(others)
    if type(value) is not str or not value or not plain:
        return None
    path = Path(value)
    return path if not path.exists() or os.access(path, os.R_OK) else None


def _choice(value: Any, descriptor: Any) -> Any:
    # members of a StrEnum are equal to their text
    return next((one for one in descriptor.choices if one == value), None)


# By the type of the annotation. Each returns None for a value that it leaves to typer.
CONVERSIONS: Final[Mapping[Any, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        str: _text,
        int: _whole_number,
        list: _list_of_text,
        Path: _path,
        Literal: _choice,
        Enum: _choice,
    }
)


class QuickExit:
    """Exits without freeing every object first, which would take longer than importing typer.

    Exit functions that were registered later run before this, and the output is flushed. Set
    ``code`` only after a command that leaves nothing open. Without a code, or if the output cannot
    be flushed, Python exits as usual.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        atexit.register(self._exit)

    def _exit(self) -> None:
        if self.code is not None:
            with suppress(OSError, ValueError):  # a closed pipe
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(self.code)
