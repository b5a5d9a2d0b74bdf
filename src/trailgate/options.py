"""How options are declared: once for Python, Spark and the command line, for their pages and their errors.

Names are compared without case, underscores and hyphens: Spark's ``fromPosition``, Python's
``from_position`` and the command line's ``--from-position`` are one option.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from enum import Enum
from functools import cache, wraps
from inspect import Parameter, signature
from types import SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from trailgate.errors import OptionError, did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])


def instance(*types: type) -> Callable[[Any], Any]:
    """Return what passes values of these types; it raises ValueError for others."""

    def check_value(value: Any) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError
        return value

    return check_value


class Kind(NamedTuple):
    """What an option may be, in words, and what makes its value of a text, or of what is not a text.

    ``read`` and ``passed`` raise ValueError for what the words do not state, or an OptionError of their own.
    """

    words: str
    read: Callable[[str], Any]
    passed: Callable[[Any], Any] = instance(str)


class Flag(NamedTuple):
    """How a command line spells an option: a name other than that of its row, what its value is called, and how it is read and bounded."""

    metavar: str | None = None
    name: str | None = None
    least: int | None = None
    read: Callable[[str], Any] | None = None


class Option(NamedTuple):
    """One option, named as in Python; ``default`` is its value where it is not given."""

    name: str
    kind: Kind
    meaning: str
    default: Any = None

    @property
    def spelling(self) -> str:
        """Return the name as Spark's options are spelled."""
        first, *rest = self.name.split("_")
        return first + "".join(part.title() for part in rest)

    def value(self, given: Any) -> Any:
        """Return the option's value, which may be given as text; raises OptionError."""
        if self.default == () and isinstance(given, list | tuple) and not given:
            return self.default  # an empty list is what the option is without one
        try:
            return self.kind.read(given) if isinstance(given, str) else self.kind.passed(given)
        except OptionError as error:
            where = error.with_place(field=self.spelling).where
            raise OptionError(error.problem, where=where, hint=error.hint) from None
        except ValueError:
            problem = f"{self.spelling} must be {self.kind.words}, not {given!r}"
            raise OptionError(problem) from None


class Field(Option):
    """An option that is declared by a field of a dataclass, and spelled like it."""

    @property
    def spelling(self) -> str:
        """Return the name of the field."""
        return self.name


class Options:
    """The options of one format."""

    def __init__(self, what: str, rows: Iterable[Option]) -> None:
        self.what = what
        self.rows = {_fold(row.name): row for row in rows}

    def __iter__(self) -> Iterator[Option]:
        return iter(self.rows.values())

    def read(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all options by their names; None is as if not given.

        Raises OptionError for an unknown name, with the nearest known one, and for a wrong value.
        """
        found = self.match_names(named)
        values = {name: self.rows[_fold(name)].value(value) for name, value in found.items()}
        return {row.name: row.default for row in self} | values

    def knows(self, name: str) -> bool:
        """Return whether there is an option of this name."""
        return _fold(name) in self.rows

    def row(self, name: str) -> Option:
        """Return the option of a name that is known."""
        return self.rows[_fold(name)]

    def match_names(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given, without None, by the names of the rows; raises OptionError for an unknown name."""
        found = {}
        for name, value in given.items():
            if not isinstance(name, str):
                raise OptionError(f"the name of an option is text, and not {name!r}")
            row = self.rows.get(_fold(name))
            if row is None:
                raise self._unknown_error(name)
            if value is not None:
                found[row.name] = value
        return found

    def _unknown_error(self, name: str) -> OptionError:
        known = [row.spelling for row in self]
        hint = did_you_mean(_fold(name), known) or f"Known: {', '.join(known)}"
        return OptionError(f"the format {self.what} has no option {name}", hint=hint)


def check_arguments(function: Function) -> Function:
    """Return a function that raises OptionError for an argument which is not of its annotation's type; values in lists and options are left to the function."""
    names = list(signature(function).parameters)

    @cache
    def hints() -> dict[str, Any]:
        plain: Any = inspect.unwrap(function)
        found: dict[str, Any] = {}
        for name, text in plain.__annotations__.items():
            own = SimpleNamespace(__annotations__={name: text})
            with suppress(NameError):  # a type that only checkers of types import
                found |= get_type_hints(own, plain.__globals__)
        return found

    @wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        for name, value in (*zip(names, given, strict=False), *named.items()):
            hint = hints().get(name, Any)
            if not _is_of(value, hint):
                raise OptionError(f"{name} must be {_words(hint)}, not {_shown(value)}")
            if isinstance(value, str) and "\0" in value:
                raise OptionError(f"{name} has a zero byte: {value!r}")
        return function(*given, **named)

    return cast("Function", checked)


def _is_of(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type, as far as that shows without looking into it."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, str | TypeVar) or value is hint:
        return True  # None is its own type
    if origin in (Annotated, Union, UnionType):
        kinds = inside[:1] if origin is Annotated else inside
        return any(_is_of(value, one) for one in kinds)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inside)
    kind: Any = origin or hint
    if kind is float:
        kind = (int, float)
    if str(getattr(kind, "__module__", "")).startswith("pyspark."):
        return True  # Spark Connect has classes of its own in their place
    if kind is Iterable and isinstance(value, bytes | bytearray):
        return False
    of_kind = isinstance(value, kind)
    return of_kind and (hint is bool or not isinstance(value, bool) or kind is object)


def _words(hint: Any) -> str:
    """Return a type as an error names it."""
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_words, get_args(hint))))
    if hint in (None, type(None)):
        return "None"
    return str(getattr(get_origin(hint) or hint, "__name__", hint))


def _shown(value: Any) -> str:
    """Return a value as an error shows it, on one line."""
    if isinstance(value, str | int | float | bytes | None):
        return repr(value)
    return f"{type(value).__name__}"


def list_names(keywords: type[Any], options: Options) -> Callable[[Function], Function]:
    """Return a decorator that lists typed keywords and their defaults in a function's signature, for help and completion."""
    defaults = {row.name: row.default for row in options}
    named = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=getattr(defaults[name], "value", defaults[name]),
            annotation=getattr(hint, "__forward_arg__", hint),
        )
        for name, hint in keywords.__annotations__.items()
    ]

    def decorate(function: Function) -> Function:
        plain = signature(function)
        own = [one for one in plain.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        vars(function)["__signature__"] = plain.replace(parameters=[*own, *named])
        return function

    return decorate


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _text(text: str) -> str:
    if not text:
        raise OptionError("an option's value is empty")
    return text


def _whole(text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()):
        raise ValueError
    return int(text)


def _count(text: str) -> int:
    if _whole(text) < 1:
        raise ValueError
    return int(text)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _listed(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names; raises OptionError for an empty list or name: what would be chosen by it is nothing, or everything."""
    if not names or not all(name.strip() for name in names):
        problem = "the list is empty" if not names else "a name in the list is empty"
        raise OptionError(problem, hint="Leave the option out, or name what is wanted")
    return names


def _names(text: str) -> tuple[str, ...]:
    return _listed(names_in(text))


def _passed_count(value: Any) -> int:
    return _count(str(instance(int)(value)))


def _name(value: Any) -> tuple[str, ...]:
    if isinstance(value, os.PathLike):
        return (_path(value),)
    if not isinstance(value, Iterable):
        raise ValueError  # noqa: TRY004  becomes an OptionError
    return _listed(tuple(_path(name) for name in value))


def _path(value: Any) -> str:
    path: str = os.fspath(instance(str, os.PathLike)(value))
    return path


TEXT: Final = Kind("a text", _text)
PATH: Final = Kind("a path", _text, _path)
WHOLE: Final = Kind("a whole number", _whole, instance(int))
COUNT: Final = Kind("a number above 0", _count, _passed_count)
NAMES: Final = Kind("a list of names", _names, _name)
PATHS: Final = Kind("a list of paths", _names, _name)


def choice(values: Mapping[str, Any] | type[Enum]) -> Kind:
    """Return the kind of one of these values, by their strings in lower case."""
    known = values if isinstance(values, Mapping) else {str(one.value): one for one in values}
    *most, last = filter(None, known)

    def read(text: str) -> Any:
        if text.casefold() not in known:
            raise ValueError
        return known[text.casefold()]

    def check_value(value: Any) -> Any:
        if not any(value is one for one in known.values()):
            raise ValueError
        return value

    return Kind(f"{', '.join(most)} or {last}" if most else last, read, check_value)


FLAG: Final = choice({"true": True, "false": False})
KINDS: Final[Mapping[Any, Kind]] = {bool: FLAG, int: WHOLE, str: Kind("a text", str)}


def field_options(options: type[Any], kind_of_row: type[Option] = Option) -> tuple[Option, ...]:
    """Return the rows that the fields of a dataclass declare: ``limit: Annotated[int, COUNT, "the most rows"] = 9``.

    The kind is that of the type where none is given; a Literal is a choice of its values. A field without a meaning is not an option.
    """
    hints = get_type_hints(options, include_extras=True)
    return tuple(
        row_of(field.name, hints[field.name], field.default, kind_of_row)
        for field in fields(options)
        if get_origin(hints[field.name]) is Annotated
    )


def row_of(
    name: str, annotation: Any, default: Any = None, kind_of_row: type[Option] = Option
) -> Option:
    """Return the row of an option of this name with the type, kind and meaning of an annotation."""
    hint, *given, meaning = get_args(annotation)
    kinds = [one for one in given if isinstance(one, Kind)]
    if kinds:
        kind = kinds[0]
    elif get_origin(hint) is Literal:
        kind = choice({value: value for value in get_args(hint)})
    else:
        kind = KINDS[hint]
    return kind_of_row(name, kind, meaning, default)
