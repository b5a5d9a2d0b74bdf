"""One error root; leaves by whose fault it is; every error carries its place."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import ClassVar, Final, Self

# A login in an address. A secret key of S3 or Azure may have slashes in it, and should not; a bucket's name has no colon.
LOGIN: Final = re.compile(
    r"(?i)(?:(?<=\bs3://)|(?<=\babfs://)|(?<=\babfss://))[^\s/:@]*:[^\s@]*@|(?<=://)[^\s/:@'\"]*:[^\s/@'\"]*@"
)
SECRET: Final = re.compile(r"(?i)(?<=[?&]client_secret=)[^\s&'\"]+|(?<=[?&]sig=)[^\s&'\"]+")

SHOWN: Final = 60  # characters of a text
PLAIN: Final = re.compile(rb"[!-~](?:[ -~]*[!-~])?")  # bytes that their text shows whole


def mask_logins(text: str) -> str:
    """Return a text with addresses in it, without the logins of these: ``s3://***@bucket/...``."""
    shown = LOGIN.sub("***@", text) if "@" in text else text
    return SECRET.sub("***", shown) if "=" in shown else shown


# Members of a place that are numbers, in the order and the words in which they are printed.
_NUMBERS = {
    "begin": "message at byte",
    "message": "message",
    "record": "record",
    "line": "line",
    "column": "column",
    "offset": "byte",
}


@dataclass(frozen=True, slots=True)
class Where:
    """A place in the input; only what is known is printed.

    ``begin`` is the byte of a file of several messages at which the message begins; other places are within the message. ``text`` is what the bytes are in their own code page; without it they are shown as UTF-8, if they are that. The bytes
    themselves are shown where they are more than the text shows: any but printable ASCII, and blanks at an end.
    """

    source: str | None = None
    message: int | None = None
    record: int | None = None
    line: int | None = None
    column: int | None = None
    offset: int | None = None
    table: str | None = None
    field: str | None = None
    raw: bytes | None = None
    text: str | None = None
    begin: int | None = None

    def __str__(self) -> str:
        parts = [self.source] if self.source else []
        for name, spelling in _NUMBERS.items():
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{spelling} {value}")
        if self.table:
            parts.append(f"table {self.table}")
        if self.field:
            parts.append(f"field {self.field}")
        if self.raw is not None:
            text = _utf8(self.raw) if self.text is None else self.text
            if _readable(text):
                parts.append(f"text {_quote(text)}")
            if not (text and PLAIN.fullmatch(self.raw) and self.raw.startswith(text.encode())):
                parts.append(f"bytes {_hex(self.raw)}" if self.raw else "no bytes")
            elif len(self.raw) > SHOWN:
                parts[-1] += f" ({len(self.raw)} bytes)"
        return ", ".join(parts) or "unknown place"


def _utf8(raw: bytes) -> str:
    """Return the text of bytes, of long ones of the first; empty where they are not UTF-8."""
    try:
        return raw[: 4 * SHOWN].decode()
    except UnicodeDecodeError as error:
        return "" if error.start < min(SHOWN, len(raw)) else raw[: error.start].decode()


def _readable(text: str) -> bool:
    return bool(text.strip()) and all(c.isprintable() or c in "\r\n\t" for c in text)


def _quote(text: str) -> str:
    return repr(text) if len(text) <= SHOWN else f"{text[:SHOWN]!r}..."


def _hex(raw: bytes, shown: int = 32) -> str:
    text = raw[:shown].hex(" ")
    return f"{text} ... ({len(raw)} bytes)" if len(raw) > shown else text


class TrailgateError(Exception):
    """Root of all errors of Trailgate: a problem, a place and a hint.

    ``numbers`` are those that Oracle's errors of an operation that is applied have, by which REPERROR names them; most errors have none.
    """

    numbers: tuple[int, ...] = ()

    def __init__(self, problem: str, *, where: Where | None = None, hint: str = "") -> None:
        self.problem, self.where, self.hint = problem, where or Where(), hint
        super().__init__(problem)

    def __str__(self) -> str:
        text = f"{self.problem} ({self.where})" if self.where != Where() else self.problem
        return mask_logins(f"{text}. {self.hint}" if self.hint else text)

    def with_place(self, **place: object) -> Self:
        """Return the same error with the parts of its place that were still unknown filled in."""
        known = {
            f.name: place[f.name]
            for f in fields(Where)
            if f.name in place and getattr(self.where, f.name) is None
        }
        self.where = replace(self.where, **known)  # type: ignore[arg-type]
        return self

    def numbered(self, numbers: tuple[int, ...]) -> Self:
        """Return the same error with the numbers that Oracle gives it."""
        self.numbers = numbers
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, self.where, self.hint, self.numbers)


def _rebuild(
    kind: type[TrailgateError], problem: str, where: Where, hint: str, numbers: tuple[int, ...]
) -> TrailgateError:
    return kind(problem, where=where, hint=hint).numbered(numbers)


class DefinitionError(TrailgateError):
    """A definitions file, copybook or layout is wrong."""


class OptionError(TrailgateError):
    """A property, parameter or option is wrong."""


class DecodeError(TrailgateError):
    """The bytes do not match their description.

    ``alike`` are further records of the column that have the same problem, so that they need not be found one by one. It is for
    who converts columns, and does not travel.
    """

    alike: Sequence[int] = ()


class TruncatedError(DecodeError):
    """The input ended inside a record."""


class TransactionError(DecodeError):
    """Transaction indicators or identifiers contradict each other."""


class EncodeError(TrailgateError):
    """A value cannot be written in the form asked for."""


class ApplyError(TrailgateError):
    """A change does not fit the rows of its target: a row is missing, or is there already."""


class StorageError(TrailgateError):
    """A file or directory is missing, damaged or in another run's hands."""


class WriteError(StorageError):
    """A file or the output cannot be written: the disk is full, or the system refuses."""


class TargetUnavailableError(StorageError):
    """The target of apply cannot be reached. Trying again may help, so apply does.

    ``reason`` names the type of fault in metrics. Faults that are not ``lasting`` end a run that follows a trail too if they last longer than its patience.
    """

    retriable: ClassVar[bool] = True
    reason: ClassVar[str] = "unreachable"
    lasting: ClassVar[bool] = True


class TargetLockedError(TargetUnavailableError):
    """Another process locks the target's file or rows, or a statement waited for too long."""

    reason: ClassVar[str] = "locked"


class TargetConflictError(TargetUnavailableError):
    """Another writer changed the target at the same time: a deadlock, a serialization failure, a commit that lost."""

    reason: ClassVar[str] = "conflict"
    lasting: ClassVar[bool] = False


class BrokerError(TrailgateError):
    """A broker cannot be reached, closes the connection, or sends what its protocol does not have; trying again may help."""

    retriable: ClassVar[bool] = True


class BrokerRefusedError(BrokerError):
    """A broker refuses what is asked for: the login, the queue, the selector."""

    retriable: ClassVar[bool] = False


class MissingDependencyError(TrailgateError, ImportError):
    """An optional part is not installed; the hint is the command that installs it."""

    @classmethod
    def of_extra(cls, problem: str, extra: str) -> Self:
        """Return the error of an extra that is not installed."""
        return cls(problem, hint=f"Install it with: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra for the Python that runs.

    It names these packages, and not this one, which need not be on a package index.
    """
    from importlib.metadata import (  # noqa: PLC0415  slow, and seldom needed
        PackageNotFoundError,
        requires,
    )

    try:
        stated = requires("trailgate") or []
    except PackageNotFoundError:  # the source alone, without its metadata
        stated = []
    wanted = re.compile(rf"""\bextra == ['"]{extra}['"]""")
    packages = [text.partition(";")[0].strip() for text in stated if wanted.search(text)]
    named = " ".join(f"'{package}'" for package in packages) or f"'.[{extra}]'"
    return f"{shlex.quote(sys.executable)} -m pip install {named}"


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return a hint that gives the nearest known name, whatever its case; empty if none is near."""
    near = nearest(name, known, cutoff=cutoff)
    return f"Did you mean {near}?" if near else ""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name that is most like a name, whatever its case; empty if none is."""
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), folded, 1, cutoff)
    return folded[near[0]] if near else ""


def caret_below(text: str, at: int, *, shown: int = 60) -> str:
    """Return two lines, each after a line feed: a text, or its part around a character, and a caret below that."""
    begin, end = max(0, at - shown), at + shown
    head, tail = "..." if begin else "", "..." if end < len(text) else ""
    # Each character is one column wide, so that the caret is below its own.
    line = "".join(c if c.isprintable() else " " for c in text[begin:end])
    return f"\n  {head}{line}{tail}\n  {' ' * (len(head) + at - begin)}^"
