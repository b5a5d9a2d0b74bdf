"""The exceptions of Trailgate. All are subclasses of ``TrailgateError``.

An error has a problem, a place (``Where``) and a hint, and its text contains all three, because
Spark sends only the text of a worker's exception to the driver::

    not a packed number (payments.dat, byte 41, field AMOUNT, bytes 12 34 5a). Is it zoned?

Inner code raises the error with the problem; each outer layer adds the parts of the place that it
knows (``with_place``). The subclasses tell where to correct the cause: in the definition, an
option, the data, the storage, the target or the broker. Errors can be pickled. Passwords in
addresses are masked.

The functions at the end of the module build parts of texts: a pip command, the nearest known name,
a count with its noun, a caret below a text.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import ClassVar, Final, Self

# A login in an address, such as user:password@. For s3:// and abfs:// the password may contain
# slashes (secret keys do, if users forget to escape them); a bucket's name never has a colon.
LOGIN: Final = re.compile(
    r"(?i)(?:(?<=\bs3://)|(?<=\babfs://)|(?<=\babfss://))[^\s/:@]*:[^\s@]*@|(?<=://)[^\s/:@'\"]*:[^\s/@'\"]*@"
)
# ?client_secret=... in an Azure address, and the signature of a shared access token: &sig=...
SECRET: Final = re.compile(r"(?i)(?<=[?&]client_secret=)[^\s&'\"]+|(?<=[?&]sig=)[^\s&'\"]+")

STANDARD_INPUT: Final = "standard input"
PIPE: Final = "a pipe"
# The temporary file with what was read from either one (``terminal/standard_input.py``).
_COPIED: Final = re.compile(
    r".*[/\\]trailgate-[^/\\]+[/\\](?:(standard-input)|pipe)-[0-9a-f]{16}(?:\.[^/\\]*)?", re.DOTALL
)

SHOWN: Final = 60  # characters of a text in an error
CARET_SHOWN: Final = 60  # characters on either side of a caret

# Printable ASCII without blanks at either end: the text alone shows such bytes completely.
PLAIN: Final = re.compile(rb"[!-~](?:[ -~]*[!-~])?")

# The numeric members of a place in the order in which they are printed, each with its label.
NUMBERED: Final = {
    "begin": "message at byte",
    "message": "message",
    "record": "record",
    "line": "line",
    "column": "column",
    "offset": "byte",
}


def mask_logins(text: str) -> str:
    """Mask the logins and secrets of addresses in the text of an error: ``s3://key:secret@bucket`` → ``s3://***@bucket``."""
    shown = LOGIN.sub("***@", text) if "@" in text else text
    return SECRET.sub("***", shown) if "=" in shown else shown


def shown_source(address: str) -> str:
    """Return the name of an input for errors and notes: its address without logins.

    The temporary copy of standard input or of a pipe is named after what was copied, because the
    file is deleted when the command ends.
    """
    if address == "-":
        return STANDARD_INPUT
    if copied := _COPIED.fullmatch(address):
        return STANDARD_INPUT if copied[1] else PIPE
    return mask_logins(address)


@dataclass(frozen=True, slots=True)
class Where:
    """The place of an error in the input, such as a file, a byte offset, a table and a field.

    Unknown parts are None and are not printed.

    ``begin`` is the byte at which the message starts in a file of several messages; the other
    numbers are relative to that message. ``raw`` are the bytes that caused the error. ``text`` is
    the same bytes decoded with their code page; without it they are decoded as UTF-8, if possible.
    The bytes are printed in hex beside the text if the text does not show them clearly, because of
    blanks at an end or of characters that are not printable ASCII.
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
        parts = [shown_source(self.source)] if self.source else []
        for name, spelling in NUMBERED.items():
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
    """Decode the start of the raw bytes in an error as UTF-8, or return "" if they are not UTF-8.

    The bytes are truncated after 240, which may split a character. So if bytes are invalid after
    the first 60, the text just ends there.
    """
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
    """The base class of all errors of Trailgate: a problem, a place and a hint.

    ``numbers`` are the Oracle error numbers of an apply error, such as 1 for ORA-00001. REPERROR
    rules name errors by them. Most errors have none.
    """

    numbers: tuple[int, ...] = ()

    def __init__(self, problem: str, *, where: Where | None = None, hint: str = "") -> None:
        self.problem, self.where, self.hint = problem, Where() if where is None else where, hint
        super().__init__(problem)

    def __str__(self) -> str:
        text = f"{self.problem} ({self.where})" if self.where != Where() else self.problem
        return mask_logins(f"{text}. {self.hint}" if self.hint else text)

    def with_place(self, **place: object) -> Self:
        """Fill in the parts of ``where`` that are still unknown, such as ``source`` or ``offset``, and return the error."""
        known = {
            f.name: place[f.name]
            for f in fields(Where)
            if f.name in place and getattr(self.where, f.name) is None
        }
        self.where = replace(self.where, **known)  # type: ignore[arg-type]
        return self

    def add_hint(self, hint: str) -> Self:
        """Append a hint to the error's hint, and return the error."""
        self.hint = (
            f"{self.hint}{'' if self.hint[-1] in '?.' else '.'} {hint}" if self.hint else hint
        )
        return self

    def with_numbers(self, numbers: tuple[int, ...]) -> Self:
        """Set the Oracle error numbers, and return the error."""
        self.numbers = numbers
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, self.where, self.hint, self.numbers)


def _rebuild(
    error_type: type[TrailgateError],
    problem: str,
    where: Where,
    hint: str,
    numbers: tuple[int, ...],
) -> TrailgateError:
    return error_type(problem, where=where, hint=hint).with_numbers(numbers)


class DefinitionError(TrailgateError):
    """Raised if a definitions file, copybook or layout is wrong."""


class OptionError(TrailgateError):
    """Raised if a property, parameter or option is wrong."""


class DecodeError(TrailgateError):
    """Raised if bytes do not match their description.

    ``alike`` are further rows of the same column with the same problem, so that code that converts
    whole columns need not find them one by one. This list is lost if the error is pickled.
    """

    alike: Sequence[int] = ()


class TruncatedError(DecodeError):
    """Raised if the input ends inside a record."""


class TransactionError(DecodeError):
    """Raised if transaction indicators or identifiers contradict each other."""


class EncodeError(TrailgateError):
    """Raised if a value cannot be written in the requested form."""


class ApplyError(TrailgateError):
    """Raised if a change does not fit the rows of its target: the row is missing, or it already exists."""


class StorageError(TrailgateError):
    """Raised if a file or directory is missing, damaged, or in use by another run."""


class WriteError(StorageError):
    """Raised if a file or the output cannot be written, for example because the disk is full."""


class TargetUnavailableError(StorageError):
    """Raised if the target of apply cannot be reached.

    Apply retries, because another attempt may succeed (``retriable``).

    ``reason`` is the label of the fault in metrics. A run that follows a trail retries indefinitely
    if the fault is ``lasting``; otherwise it gives up when the fault lasts longer than the
    configured patience.
    """

    retriable: ClassVar[bool] = True
    reason: ClassVar[str] = "unreachable"
    lasting: ClassVar[bool] = True


class TargetLockedError(TargetUnavailableError):
    """Raised if another process locks the target's file or rows, or a statement waited for too long."""

    reason: ClassVar[str] = "locked"


class TargetConflictError(TargetUnavailableError):
    """Raised if another writer changed the target at the same time.

    Examples are a deadlock, a serialization failure, and a commit that failed because another one
    came first.
    """

    reason: ClassVar[str] = "conflict"
    lasting: ClassVar[bool] = False


class BrokerError(TrailgateError):
    """Raised if a broker cannot be reached, closes the connection, or violates its protocol.

    Another attempt may succeed. ``reason`` and ``lasting`` are as in ``TargetUnavailableError``.
    """

    retriable: ClassVar[bool] = True
    reason: ClassVar[str] = "unreachable"
    lasting: ClassVar[bool] = True


class BrokerRefusedError(BrokerError):
    """Raised if a broker rejects a request, such as the login, the queue or the selector."""

    retriable: ClassVar[bool] = False


class BrokerFullError(BrokerError):
    """Raised if a broker has no room for messages at the moment.

    It accepts messages again when consumers have made room.
    """

    reason: ClassVar[str] = "full"


class MissingDependencyError(TrailgateError, ImportError):
    """Raised if an optional dependency is not installed. The hint is the command that installs it."""

    @classmethod
    def of_extra(cls, problem: str, extra: str) -> Self:
        """Build the error for an extra of Trailgate that is not installed."""
        return cls(problem, hint=f"Install it with: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the pip command that installs the packages of an extra for the running Python.

    It lists the packages themselves instead of ``trailgate[extra]``, because Trailgate need not be
    on a package index.
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


def did_you_mean(name: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return a hint such as "Did you mean ORDERS?" with the nearest name, or "" if none is near.

    ``cutoff`` is as in ``nearest_name``.
    """
    near = nearest_name(name, candidates, cutoff=cutoff)
    return f"Did you mean {near}?" if near else ""


def nearest_name(name: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name most similar to a name, ignoring case, or "" if none is near.

    ``cutoff`` is the similarity, from 0 to 1, that a name must have
    (``difflib.get_close_matches``).
    """
    folded = {one.casefold(): one for one in candidates}
    near = get_close_matches(name.casefold(), folded, 1, cutoff)
    return folded[near[0]] if near else ""


def count_noun(count: int, name: str, plural: str = "") -> str:
    """Return a count with its noun for an error or a report, for example "1 message", "2,000 messages" or "2 batches".

    The noun gets an s in the plural unless ``plural`` is set.
    """
    return f"{count:,} {name if count == 1 else plural or f'{name}s'}"


def caret_below(text: str, at: int, *, shown: int = CARET_SHOWN) -> str:
    """Return two lines that point at the character ``at`` of a text: the text, and a caret below.

    Each line starts with a line feed. A long text is cut to ``shown`` characters on either side::

      SELECT * FORM orders
               ^
    """
    begin, end = max(0, at - shown), at + shown
    head, tail = "..." if begin else "", "..." if end < len(text) else ""
    # Each character is one column wide, so that the caret is below its own.
    line = "".join(c if c.isprintable() else " " for c in text[begin:end])
    return f"\n  {head}{line}{tail}\n  {' ' * (len(head) + at - begin)}^"
