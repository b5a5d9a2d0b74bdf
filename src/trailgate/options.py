"""Declare an option once, for Python, Spark, the command line, the documentation and the errors.

Names are compared without case, underscores and hyphens: Spark's ``fromPosition``, Python's
``from_position`` and the command line's ``--from-position`` are the same option.

An ``Option`` has a name, an ``OptionType`` (which parses and checks values), a description and a
default. Most are declared as the fields of a dataclass and read by ``field_options``::

    limit: Annotated[int | None, COUNT, "The maximum number of rows."] = None

``Options.read`` turns the strings of Spark or the values of Python into checked values. The command
line reads the same annotations and the ``Flag`` in them. ``check_arguments`` checks the arguments
of public functions against their annotations.
"""

from __future__ import annotations

import inspect
import os
import sys
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
Kind = TypeVar("Kind")
Item = TypeVar("Item")


def instance(*types: type) -> Callable[[Any], Any]:
    """Return a check for option values: values of ``types`` are returned, others raise ValueError.

    A bool does not count as an int.
    """

    def check_value(value: Any) -> Any:
        # In Python a bool is an int, but limit=True is a mistake.
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError
        return value

    return check_value


class OptionType(NamedTuple):
    """The type of an option's value: its description, a parser for text, and a check for other values.

    ``words`` completes "must be ...", for example "a number above 0". ``read`` parses text,
    ``passed`` checks a value that is not text. Both raise ValueError if the description does not
    apply to the value, or an OptionError with a more specific message.
    """

    words: str
    read: Callable[[str], Any]
    passed: Callable[[Any], Any] = instance(str)


class Flag(NamedTuple):
    """How the command line spells an option, if the defaults do not fit.

    ``metavar`` is the placeholder of its value in the help, ``name`` a spelling other than the
    field's, ``least`` the smallest number allowed, and ``read`` a parser.
    """

    metavar: str | None = None
    name: str | None = None
    least: int | None = None
    read: Callable[[str], Any] | None = None


class Option(NamedTuple):
    """One option, named as in Python. ``default`` is its value if the user does not set it.

    ``meaning`` is its description in the help and the documentation.
    """

    name: str
    kind: OptionType
    meaning: str
    default: Any = None

    @property
    def spelling(self) -> str:
        """The option's name as Spark spells it: ``from_position`` becomes ``fromPosition``."""
        first, *rest = self.name.split("_")
        return first + "".join(part.title() for part in rest)

    def value(self, given: Any, written: str = "") -> Any:
        """Parse the option's value if it is text, otherwise check it. Raises OptionError.

        `written` is the name in the error, if it is not `spelling`.
        """
        name = written or self.spelling
        if self.default == () and isinstance(given, list | tuple) and not given:
            return self.default  # an empty list means the same as no list
        try:
            return self.kind.read(given) if isinstance(given, str) else self.kind.passed(given)
        except OptionError as error:
            where = error.with_place(field=name).where
            raise OptionError(error.problem, where=where, hint=error.hint) from None
        except ValueError:
            # Bool is an int in Python: True is shown as the user would write it.
            shown = _shown(given) if isinstance(given, int) else repr(given)
            problem = f"{name} must be {self.kind.words}, not {shown}"
            raise OptionError(problem) from None


class FieldOption(Option):
    """An option that is declared by a field of a dataclass, and spelled like the field."""

    @property
    def spelling(self) -> str:
        """The name of the option's field, unchanged."""
        return self.name


class Options:
    """The options of one format. ``what`` is the format's name in errors."""

    def __init__(self, what: str, rows: Iterable[Option]) -> None:
        self.what = what
        self.rows = {_fold(row.name): row for row in rows}

    def __iter__(self) -> Iterator[Option]:
        return iter(self.rows.values())

    def read(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all options by name: the given values, checked, and defaults for the others.

        None counts as not set. Raises OptionError for a wrong value and for an unknown name, with
        the nearest known name as a hint. If the caller used the option's Python name
        (``from_position``), the error uses it too; otherwise it uses ``spelling``.
        """
        values = {
            name: self.rows[_fold(name)].value(value, name if name in named else "")
            for name, value in self.match_names(named).items()
        }
        return {row.name: row.default for row in self} | values

    def knows(self, name: str) -> bool:
        """Return whether the format has an option with this name."""
        return _fold(name) in self.rows

    def row(self, name: str) -> Option:
        """Return the format's option with this name, which must exist."""
        return self.rows[_fold(name)]

    def match_names(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Replace each name by the option's declared name, and drop values that are None.

        Raises OptionError for an unknown name.
        """
        matched = {}
        for name, value in given.items():
            if not isinstance(name, str):
                raise OptionError(f"the name of an option must be text, not {name!r}")
            row = self.rows.get(_fold(name))
            if row is None:
                raise self._unknown_error(name)
            # Python's None means that the caller did not set the option.
            if value is not None:
                matched[row.name] = value
        return matched

    def _unknown_error(self, name: str) -> OptionError:
        known = [row.name if "_" in name else row.spelling for row in self]
        hint = (
            did_you_mean(name if "_" in name else _fold(name), known)
            or f"Known: {', '.join(known)}"
        )
        return OptionError(f"the format {self.what} has no option {name}", hint=hint)


def check_arguments(function: Function) -> Function:
    """Wrap a function so that it raises OptionError if an argument does not have its annotated type.

    Items of lists and mappings are not checked. Text must be possible as a path: it is neither
    empty nor has a zero byte.
    """
    parameters = signature(function).parameters

    def check_text(name: str, value: Any) -> None:
        if not isinstance(value, str):
            return
        # open() would raise ValueError without naming the argument.
        if "\0" in value:
            raise OptionError(f"{name} has a zero byte: {value!r}")
        # An empty path would mean the working folder.
        stated = parameters.get(name)  # None for one of **options
        if not value and stated and stated.default != "":
            raise OptionError(f"the value of {name} is empty")

    return _with_checks(function, (), check_text)


def check_calls(kind: type[Kind]) -> type[Kind]:
    """Check the types of the arguments of a class's constructor and public methods.

    Raises OptionError as ``check_arguments`` does, but any text is accepted.
    """
    for name, member in list(vars(kind).items()):
        if name != "__init__" and name.startswith("_"):
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(kind, name, type(member)(_with_checks(member.__func__, kind.__mro__)))
        elif inspect.isfunction(member):
            setattr(kind, name, _with_checks(member, kind.__mro__))
    return kind


def _with_checks(
    function: Function,
    owners: tuple[type, ...],
    more: Callable[[str, Any], None] | None = None,
) -> Function:
    """Wrap a function with checks of its arguments' types.

    ``owners`` are the class of a method and its base classes, or () for a function. ``more`` is
    called with the name and value of each argument for further checks.
    """
    names = list(signature(function).parameters)
    hints = cache(lambda: _hints_of(function, owners))
    # Methods are called with numbers from arrays, too.
    plain = _plain if owners else _same
    right: set[tuple[str, type]] = set()  # types that arguments had before, and that were right

    @wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        for name, value in (*zip(names, given, strict=False), *named.items()):
            kind = type(value)
            # Usually an argument has the type that it had before. An array without dimensions is a number.
            if (name, kind) not in right or getattr(value, "shape", None) == ():
                hint = hints().get(name, Any)
                if not (kind is hint or hint is Any or _is_of(plain(value), hint)):
                    raise OptionError(f"{name} must be {_words(hint)}, not {_shown(value)}")
                if not _has_literal(hint):
                    right.add((name, kind))
            # Arrow and numpy would raise OverflowError without naming the argument.
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise OptionError(f"{name} must be a number of 64 bits, not a larger one")
            if more is not None:
                more(name, value)
        return function(*given, **named)

    return cast("Function", checked)


def _same(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """Convert a number of numpy to Python's own, to check its type. Other values are unchanged."""
    return value.item() if getattr(value, "shape", None) == () else value


def _hints_of(function: Callable[..., Any], owners: tuple[type, ...]) -> dict[str, Any]:
    """Return the types of a function's annotations by name.

    The annotations of an inherited field are names of its own module. A type that is imported only
    for type checkers is not known, and must not prevent the checks of the others.
    """
    plain: Any = inspect.unwrap(function)
    scopes = [plain.__globals__, *(vars(sys.modules[one.__module__]) for one in owners)]
    resolved: dict[str, Any] = {}
    for name, text in plain.__annotations__.items():
        single = SimpleNamespace(__annotations__={name: text})
        for scope in scopes:
            with suppress(NameError):
                resolved = get_type_hints(single, scope) | resolved
                break
    return resolved


def check_items(name: str, items: Iterable[Item], kind: Any) -> tuple[Item, ...]:
    """Return the items of an argument as a tuple. Raises OptionError if one is not a ``kind``.

    ``kind`` is a type or a union of types. ``name`` is the name of the list in the error.
    """
    checked = tuple(items)
    for number, item in enumerate(checked):
        if not isinstance(item, kind):
            problem = f"item {number} of {name} must be {_words(kind)}, not {_shown(item)}"
            raise OptionError(problem)
    return checked


class NamedValues(Enum):
    """An Enum that raises OptionError, instead of ValueError, for a value that it does not have."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        problem = f"{cls.__name__} has no value {_shown(value)}"
        raise OptionError(problem, hint=f"Known: {', '.join(repr(one.value) for one in cls)}")


def _is_of(value: Any, hint: Any) -> bool:
    """Return whether a value has an annotated type. The items of a container are not checked."""
    hint = _resolve_alias(hint)
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, str | TypeVar) or value is hint:
        return True  # `value is hint` is for None, which is its own annotation
    if origin in (Annotated, Union, UnionType):
        kinds = inside[:1] if origin is Annotated else inside
        return any(_is_of(value, one) for one in kinds)
    # Compare the types too, because 1 == True.
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inside)
    kind: Any = origin or hint
    # A list is as good as a tuple of any length.
    if kind is tuple and inside[1:] == (...,):
        kind = (tuple, list)
    # As in PEP 484, an int is accepted for a float.
    if kind is float:
        kind = (int, float)
    if str(getattr(kind, "__module__", "")).startswith("pyspark."):
        return True  # Spark Connect has other classes of the same names
    # Bytes iterate as numbers, and a mapping as its keys, which no function here expects.
    if kind is Iterable and isinstance(value, bytes | bytearray | Mapping):
        return False
    of_kind = isinstance(value, kind)
    return of_kind and (hint is bool or not isinstance(value, bool) or kind is object)


def _resolve_alias(hint: Any) -> Any:
    """Return the value of an alias that ``type NAME = ...`` of Python 3.12 defines, and other types unchanged.

    numpy 2.5 defines ``NDArray`` in this way: ``NDArray[int64]`` becomes an ``ndarray``.
    """
    while type(alias := get_origin(hint) or hint).__name__ == "TypeAliasType":
        hint = alias.__value__
    return hint


def _has_literal(hint: Any) -> bool:
    """Return whether an annotation contains a Literal, so that an argument's value must be checked too."""
    hint = _resolve_alias(hint)
    return get_origin(hint) is Literal or any(map(_has_literal, get_args(hint)))


def _words(hint: Any) -> str:
    """Return the name of an annotated type for an error, such as "str or None"."""
    hint = _resolve_alias(hint)
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_words, get_args(hint))))
    if hint in (None, type(None)):
        return "None"
    return str(getattr(get_origin(hint) or hint, "__name__", hint))


def _shown(value: Any) -> str:
    """Format a wrong argument for one line of an error: as a literal, or only the type's name."""
    # Python refuses to print numbers of more than 4,300 digits.
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    # The repr of other values may be long or have several lines.
    if isinstance(value, str | int | float | bytes | None):
        return repr(value)
    return f"{type(value).__name__}"


def list_names(keywords: type[Any], options: Options) -> Callable[[Function], Function]:
    """Return a decorator that replaces ``**options`` in a function's signature by named keywords.

    ``help()`` and completion in editors then list them. ``keywords`` is a class whose annotations
    are the names and types of the keywords; their defaults come from ``options``.
    """
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
        # `inspect.signature` prefers this attribute to the function's real parameters.
        vars(function)["__signature__"] = plain.replace(parameters=[*own, *named])
        return function

    return decorate


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _text(text: str) -> str:
    if not text:
        raise OptionError("an option's value is empty")
    return text


def _whole_number(text: str) -> int:
    # int() would also accept blanks, underscores and digits of other scripts.
    if not (text.isascii() and text.removeprefix("-").isdigit()):
        raise ValueError
    return int(text)


def _count(text: str) -> int:
    # Arrow and numpy count with 64 bits.
    if not 0 < _whole_number(text) < 2**63:
        raise ValueError
    return int(text)


def split_names(text: str) -> tuple[str, ...]:
    """Split an option's comma-separated list into names. Empty ones are skipped."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Check an option's list of names, and return it. Raises OptionError if it or a name is empty.

    It would be unclear whether an empty list selects nothing or everything.
    """
    if not names or not all(name.strip() for name in names):
        problem = "the list is empty" if not names else "a name in the list is empty"
        raise OptionError(problem, hint="Omit the option, or list the names")
    return names


def _names(text: str) -> tuple[str, ...]:
    return _check_names(split_names(text))


def _passed_count(value: Any) -> int:
    return _count(str(instance(int)(value)))


def _passed_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, os.PathLike):
        return (_path(value),)
    if not isinstance(value, Iterable):
        raise ValueError  # noqa: TRY004  becomes an OptionError
    return _check_names(tuple(_path(name) for name in value))


def _path(value: Any) -> str:
    path: str = os.fspath(instance(str, os.PathLike)(value))
    return path


TEXT: Final = OptionType("a text", _text)
PATH: Final = OptionType("a path", _text, _path)
WHOLE: Final = OptionType("a whole number", _whole_number, instance(int))
COUNT: Final = OptionType("a number above 0", _count, _passed_count)
NAMES: Final = OptionType("a list of names", _names, _passed_names)
PATHS: Final = OptionType("a list of paths", _names, _passed_names)


def choice(values: Mapping[str, Any] | type[Enum]) -> OptionType:
    """Return the type of an option with a fixed set of values.

    As text, the value is a key of a mapping or the value of an Enum's member, in any case. In
    Python, it is the mapping's value or the member. The keys must be in lower case.
    """
    known = values if isinstance(values, Mapping) else {str(one.value): one for one in values}
    # An empty key is accepted but not listed in the error.
    *most, last = filter(None, known)

    # A text is compared with the keys; a value of Python must be one of the values themselves.
    def read(text: str) -> Any:
        if text.casefold() not in known:
            raise ValueError
        return known[text.casefold()]

    def check_value(value: Any) -> Any:
        if not any(value is one for one in known.values()):
            raise ValueError
        return value

    return OptionType(f"{', '.join(most)} or {last}" if most else last, read, check_value)


FLAG: Final = choice({"true": True, "false": False})
# The type of an option by the annotation of its field.
KINDS: Final[Mapping[Any, OptionType]] = {bool: FLAG, int: WHOLE, str: OptionType("a text", str)}


def field_options(options: type[Any], kind_of_row: type[Option] = Option) -> tuple[Option, ...]:
    """Read the options that the fields of a dataclass declare.

    For example ``limit: Annotated[int, COUNT, "The most rows."] = 9``. If the annotation has no
    ``OptionType`` such as ``COUNT``, the option type is derived from the Python type; a Literal
    becomes a choice of its values. Fields without ``Annotated`` are not options. The options are
    instances of ``kind_of_row``.
    """
    hints = get_type_hints(options, include_extras=True)
    return tuple(
        option_from_annotation(field.name, hints[field.name], field.default, kind_of_row)
        for field in fields(options)
        if get_origin(hints[field.name]) is Annotated
    )


def option_from_annotation(
    name: str, annotation: Any, default: Any = None, kind_of_row: type[Option] = Option
) -> Option:
    """Build an option from its name and an ``Annotated`` type with a description and, optionally, an ``OptionType``."""
    hint, *given, meaning = get_args(annotation)
    kinds = [one for one in given if isinstance(one, OptionType)]
    if kinds:
        kind = kinds[0]
    elif get_origin(hint) is Literal:
        kind = choice({value: value for value in get_args(hint)})
    else:
        kind = KINDS[hint]
    return kind_of_row(name, kind, meaning, default)
