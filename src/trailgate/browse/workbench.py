"""The workbench: a message, properties, and what a capture makes of both, as they are typed.

What is read of the machine is the properties file that the command names, the files that it names, and those of the folder of messages; all when a page is opened. What is typed
is parsed from the request alone: a file that properties name must be among the texts of the page, so that no request chooses what is read. Copybooks find their COPY members
in the folder of the copybook, as captures do, if it is one of the command's. Nothing is written but properties, where ``--save-to`` allows it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from trailgate.browse.message_views import MessageView, errors_of, view_of
from trailgate.browse.operations import MISSING, Cell, Side, cell_of, side_of
from trailgate.capture.capture import Capture
from trailgate.capture.formats import parser_of, row_of
from trailgate.cobol.copybook.layouts import Dialect, Layout
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.errors import DefinitionError, OptionError, StorageError, TrailgateError, Where
from trailgate.expressions.selection import CaptureRules
from trailgate.formats.xml.options import XmlOptions
from trailgate.jobs.capture.loading import messages_from
from trailgate.jobs.proposals import propose
from trailgate.messages.messages import MessageBatch
from trailgate.messages.properties import Properties, parse_properties
from trailgate.messages.property_rows import ValueKind
from trailgate.messages.property_table import row_of as property_row
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import read_whole
from trailgate.storage.files.found_files import copy_members, folder_of

if TYPE_CHECKING:
    from trailgate.formats.xml.coverage import Explanation

LARGEST: Final = 1 << 20  # bytes of a message, of a text, or of what is shown
POSTED: Final = 4 * LARGEST  # bytes of a request: what is typed is escaped in it
LISTED: Final = 500  # files of the folder
OPERATIONS: Final = 50  # that are shown
FAULTS: Final = 20
# All that messages have is shown, whatever of it a capture's options leave out.
RULES: Final = CaptureRules(compress_updates=False, update_befores=True, compress_deletes=False)
NEW: Final = "capture.properties"  # the name of properties that have none
MESSAGE: Final = "the message"
FORMS: Final = {"lf": "text", "crlf": "text, lines end in CR LF", "hex": "bytes in hex"}
_FILE_NAME: Final = re.compile(r"\w[\w.-]{0,100}", re.ASCII)
_PAIR: Final = re.compile(r"[0-9A-Fa-f]{2}")
_NO_PAIR: Final = re.compile(r"[^0-9A-Fa-f\s]|(?<![0-9A-Fa-f])[0-9A-Fa-f](?![0-9A-Fa-f])")


@dataclass(frozen=True, slots=True)
class File:
    """A file that the properties name, as it was read or typed."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """What the fields of the page hold; ``earlier`` are the properties that a proposal replaced."""

    message: str = ""
    form: str = "lf"
    headers: str = ""
    properties: str = ""
    files: tuple[File, ...] = ()
    chosen: str = ""
    earlier: str = ""

    @property
    def body(self) -> bytes:
        """Return the message's bytes; raises OptionError where its hex digits are not pairs."""
        if self.form != "hex":
            text = self.message.encode()
            return text.replace(b"\n", b"\r\n") if self.form == "crlf" else text
        wrong = _NO_PAIR.search(self.message)
        digits = "".join(self.message.split())
        if wrong is not None or len(digits) % 2:
            at = len(self.message) if wrong is None else wrong.start()
            line = self.message.count("\n", 0, at) + 1
            column = at - self.message.rfind("\n", 0, at)
            place = Where(source=MESSAGE, line=line, column=column)
            raise OptionError("expected bytes as pairs of hex digits", where=place)
        return bytes.fromhex(digits)

    def index(self, offset: int) -> int:
        """Return the character of the message's text at which a byte is."""
        if self.form == "hex":
            places = [found.start() for found in _PAIR.finditer(self.message)]
            return places[offset] if offset < len(places) else len(self.message)
        head = self.body[:offset]
        text = head.decode(errors="ignore")
        return len(text) - (text.count("\r\n") if self.form == "crlf" else 0)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and where: the text that it is in, its line and columns, and the line with the place marked.

    ``pane`` is the field of the page, and ``line`` 0 where no line is known.
    """

    pane: str
    source: str
    problem: str
    hint: str = ""
    line: int = 0
    column: int = 0
    length: int = 0
    excerpt: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True, slots=True)
class Run:
    """A part of the message: its text, its class, and what it is; what is between fields has neither."""

    text: str
    colour: str = "soft"
    title: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What properties make of a message."""

    faults: tuple[Fault, ...] = ()
    more_faults: int = 0
    notes: tuple[tuple[str, str], ...] = ()
    parser: str = ""
    view: MessageView = field(default_factory=MessageView)
    runs: tuple[Run, ...] = ()
    damaged: frozenset[int] = frozenset()  # bytes at which fields with faults begin
    rules: Explanation | None = None
    lines: Mapping[str, int] = field(
        default_factory=dict
    )  # of the properties, by the rules that they are of
    operations: tuple[Made, ...] = ()
    more: int = 0
    counts: tuple[int, int] = (0, 0)  # operations and tables
    tried: bool = False


class Workbench:
    """The files that a command names for the page."""

    def __init__(
        self,
        properties: str | None = None,
        messages: str | None = None,
        save_to: str | None = None,
    ) -> None:
        self.properties, self.messages, self.save_to = properties, messages, save_to
        for folder in (messages, save_to):
            if folder is not None and not Path(folder).is_dir():
                raise StorageError("there is no such folder", where=Where(source=folder))
        if properties is not None:
            self._text(properties)  # an error now rather than on the page
        self.copybooks: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return the name of the properties file."""
        return NEW if self.properties is None else Path(self.properties).name

    @property
    def title(self) -> str:
        """Return what the page is of, where there is no trail."""
        return self.properties or self.messages or NEW

    def read(self) -> Sheet:
        """Return the page's fields as the files are now; the message is the first one of the folder."""
        sheet = Sheet()
        if self.properties is not None:
            text = self._text(self.properties)
            sheet = replace(sheet, properties=text, files=tuple(self._named(text)))
            self.copybooks |= {file.name for file in sheet.files}
        names = self.names()
        return self.load(sheet, names[0]) if names else sheet

    def names(self) -> list[str]:
        """Return the names of the messages in the folder."""
        if self.messages is None:
            return []
        entries = Path(self.messages).iterdir()
        found = (one.name for one in entries if one.name[0] not in "._" and one.is_file())
        return sorted(found)[:LISTED]

    def load(self, sheet: Sheet, name: str) -> Sheet:
        """Return the fields with a message of the folder; raises OptionError for what is not one of them."""
        if self.messages is None or name not in self.names():
            raise OptionError(f"the folder has no message {name!r}")
        path = Path(self.messages, name)
        if path.stat().st_size > LARGEST:
            problem = f"the message has more than {LARGEST >> 20} MB"
            raise OptionError(problem, where=Where(source=str(path)), hint="Choose a part of it")
        text, form = shown_message(path.read_bytes())
        return replace(sheet, message=text, form=form, chosen=name)

    def save(self, name: str, text: str, *, overwrite: bool) -> str:
        """Write properties into the folder for them, and return where; raises OptionError for a file that is there, unless it is to be overwritten."""
        if self.save_to is None or not _FILE_NAME.fullmatch(name):
            raise OptionError(f"{name!r} is not a name of a file to be saved")
        path = Path(self.save_to, name)
        try:
            with path.open("wb" if overwrite else "xb") as file:
                file.write(as_file(text))
        except FileExistsError:
            hint = "Overwrite it, or choose another name"
            raise OptionError(f"{name} is there already", hint=hint) from None
        except OSError as error:
            problem = f"the file cannot be written: {error.strerror}"
            raise StorageError(problem, where=Where(source=str(path))) from None
        return str(path)

    def _text(self, path: str) -> str:
        r"""Return a file's text; bytes that are not UTF-8 are ``\xHH``, as properties may have them."""
        raw = read_whole(path, "properties")
        text = raw.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n")
        return text.replace("\0", r"\x00")

    def _named(self, properties: str) -> Iterable[File]:
        """Yield the files that properties name, those that are there; of a broken file too."""
        for name in dict.fromkeys(paths_in(properties)):
            try:
                raw = read_whole(name)
            except (TrailgateError, ValueError):
                continue
            if len(raw) <= LARGEST:
                yield File(name, _as_text(raw))


def as_file(text: str) -> bytes:
    """Return properties as a file has them."""
    return (text if text.endswith("\n") else f"{text}\n").encode()


def paths_in(properties: str) -> list[str]:
    """Return the files that properties name, of a broken text too."""
    found = []
    for line in properties.split("\n"):
        name, equals, value = line.strip().partition("=")
        row = property_row(name.strip()) if equals and not name.startswith("#") else None
        if row is not None and row.kind is ValueKind.PATH and value.strip():
            found.append(value.strip())
    return found


def _as_text(raw: bytes) -> str:
    """Return the text of a definitions file or copybook: UTF-8, or else Latin-1, which every byte fits."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\0", " ")


def shown_message(raw: bytes) -> tuple[str, str]:
    """Return a message as the page has it, and in which form: text, unless that would lose something."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\0"
    returns, pairs = text.count("\r"), text.count("\r\n")
    if "\0" in text or returns > pairs or (pairs and pairs < text.count("\n")):
        lines = (raw[at : at + 16].hex(" ") for at in range(0, len(raw), 16))
        return "\n".join(lines), "hex"
    return (text.replace("\r\n", "\n"), "crlf") if pairs else (text, "lf")


def sheet_of(body: bytes) -> tuple[Sheet, dict[str, str]]:
    """Return the fields of a form that was sent, and what is asked for; raises OptionError for what is not one."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise OptionError("what was sent is not the page's form") from None
    given: dict[str, str] = {}
    names, texts = [], []
    for name, value in pairs:
        text = value.replace("\r\n", "\n").replace("\r", "\n")
        if name == "file_name":
            names.append(text.strip())
        elif name == "file_text":
            texts.append(text)
        else:
            given[name] = text
    files = tuple(
        File(name, text) for name, text in zip(names, texts, strict=False) if name or text
    )
    form = given.get("form", "lf")
    own = ("message", "headers", "properties", "chosen", "earlier")
    fields = {name: given.get(name, "") for name in own}
    return Sheet(form=form if form in FORMS else "lf", files=files, **fields), given


@dataclass(frozen=True, slots=True)
class _Texts:
    """The files of a page, by the names that properties give them."""

    files: Mapping[str, str]
    properties: Properties
    copybooks: frozenset[str]

    def chosen(self, path: str) -> str:
        return path

    def sourcedefs(self, path: str) -> Definitions:
        return read_sourcedefs(self._text(path).encode(), source=path)

    def copybook(self, path: str, dialect: Dialect) -> list[Layout]:
        from trailgate.cobol.copybook.reader import read_copybook  # noqa: PLC0415  for copybooks

        member = copy_members([folder_of(path)] if path in self.copybooks else [])
        return read_copybook(self._text(path), source=path, dialect=dialect, member=member)

    def _text(self, path: str) -> str:
        if path in self.files:
            return self.files[path]
        entry = next((one for one in self.properties.entries if one.value == path), None)
        known = ", ".join(name for name in self.files if name) or "none"
        hint = f"Paste its text as another file, or name it in the properties file that the command names. The page has: {known}"
        raise self.properties.error(f"the page has no file {path}", entry, hint)


class _Examined:
    """One look at a sheet: what is found is gathered as far as it goes."""

    def __init__(self, bench: Workbench, sheet: Sheet) -> None:
        self.bench, self.sheet = bench, sheet
        self.name = bench.properties or NEW
        self.found = Found()
        self.errors: list[TrailgateError] = []

    def run(self) -> Found:
        """Return what is found, with the faults at their places."""
        try:
            self._run()
        except TrailgateError as error:
            self.errors.append(error)
        faults = tuple(self._fault(error) for error in self.errors[:FAULTS])
        places = [one.where for one in self.errors if one.where.field is not None]
        damaged = frozenset(one.offset for one in places if one.offset is not None)
        runs, more = self._runs(damaged), max(0, len(self.errors) - FAULTS)
        return replace(self.found, faults=faults, more_faults=more, damaged=damaged, runs=runs)

    def _run(self) -> None:
        properties = self._properties()
        if self.errors or not properties.entries:
            return
        parser = parser_of(properties)
        files = {file.name: file.text for file in self.sheet.files}
        texts = _Texts(files, properties, self.bench.copybooks)
        options, tables = parser.setup(properties, texts)
        capture = Capture(options, RULES.with_keys(tables), RULES, now=time.time_ns() // 1000)
        self.found = replace(self.found, parser=parser.name, notes=properties.notes)
        capture.check()
        body = self.sheet.body
        if not body.strip():
            return
        messages = replace(messages_from([body], MESSAGE), headers=(self._headers(),))
        if options.infers:
            inference = row_of(options).inference(options)
            inference.add(messages)
            known = capture.rules.with_keys(inference.definitions())
            capture = replace(capture, options=options.with_tables(known), definitions=known)
        self._parse(capture, messages, body)

    def _properties(self) -> Properties:
        """Return the properties; lines with an error are taken for empty ones, after it is noted."""
        lines = self.sheet.properties.split("\n")
        while len(self.errors) < FAULTS:
            try:
                return parse_properties("\n".join(lines).encode(), self.name)
            except OptionError as error:
                self.errors.append(error)
                if not error.where.line:
                    break
                lines[error.where.line - 1] = ""
        return Properties(())

    def _lines(self) -> dict[str, int]:
        """Return the line of each rule: of its match, if it has one."""
        found: dict[str, int] = {}
        for number, line in enumerate(self.sheet.properties.split("\n"), 1):
            rule, _, name = line.partition("=")[0].strip().rpartition(".")
            if name == "match" or (name == "type" and rule not in found):
                found[rule] = number
        return found

    def _headers(self) -> dict[str, str]:
        pairs = (line.partition("=") for line in self.sheet.headers.split("\n") if line.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _parse(self, capture: Capture, messages: MessageBatch, body: bytes) -> None:
        if isinstance(capture.options, XmlOptions):
            from trailgate.formats.xml.coverage import explain  # noqa: PLC0415  for XML messages

            rules = explain(capture.options, body)
            self.found = replace(self.found, rules=rules, lines=self._lines())
        view = view_of(capture, messages)
        parsed = capture.parse(messages)
        last = capture.at_end(parsed.state)
        self.found = replace(self.found, view=view, tried=True)
        problems = [one.error for one in (*parsed.problems, *last.problems)]
        self.errors += (errors_of(capture, view, messages) if problems else []) or problems
        every = [row for part in (parsed, last) for row in part.operations().to_pylist()]
        warned = capture.options.notes if self.found.rules else capture.warnings(parsed.notes)
        self.found = replace(
            self.found,
            operations=tuple(_operation(row, capture) for row in every[:OPERATIONS]),
            more=max(0, len(every) - OPERATIONS),
            counts=(len(every), len({row["table"] for row in every})),
            notes=(*self.found.notes, *(("", note) for note in sorted(warned))),
        )

    def _fault(self, error: TrailgateError) -> Fault:
        """Return an error with the place of the page that it is at."""
        where = error.where
        source = where.source or (MESSAGE if where.offset is not None or where.record else "")
        place = replace(where, source=None, message=None, line=None, column=None, offset=None)
        problem = error.problem + (f" ({place})" if place != Where() else "")
        if source in ("", MESSAGE) and not isinstance(error, (OptionError, DefinitionError)):
            source = MESSAGE
        pane, text = self._pane(source)
        fault = Fault(pane, source, problem, error.hint)
        line, column, length = where.line or 0, where.column or 0, 0
        hexed = self.sheet.form == "hex"
        if pane == "message" and where.offset is not None and (hexed or not line):
            begin = self.sheet.index(where.offset)
            end = self.sheet.index(where.offset + len(where.raw or b""))
            line = text.count("\n", 0, begin) + 1
            column, length = begin - text.rfind("\n", 0, begin), end - begin
        if not line:
            return fault
        lines = text.split("\n")
        own = lines[line - 1] if line <= len(lines) else ""
        at = max(0, min(column - 1, len(own))) if column else 0
        stop = min(len(own), at + (length or 1)) if column else len(own)
        begin = max(0, at - 30)
        excerpt = own[begin:at], own[at:stop][:80], own[stop : stop + 40]
        return replace(
            fault, line=line, column=at + 1, length=max(1, length or stop - at), excerpt=excerpt
        )

    def _pane(self, source: str) -> tuple[str, str]:
        """Return the field of the page that a source is, and its text."""
        if source == self.name:
            return "properties", self.sheet.properties
        if source == MESSAGE:
            return "message", self.sheet.message
        for number, file in enumerate(self.sheet.files):
            if file.name == source:
                return f"file{number}", file.text
        return "", ""

    def _runs(self, damaged: frozenset[int]) -> tuple[Run, ...]:
        """Return the message as runs of text: each field, and what is between them."""
        records = self.found.view.records
        body, at, runs = self.sheet.body if records else b"", 0, []
        for record in records:
            for number, one in enumerate(record.fields):
                if one.begin < at:
                    continue  # it overlaps the one before
                if one.begin > at:
                    runs.append(Run(_between(body[at : one.begin])))
                colour = f"c{number % 6}" + (" damage" if one.begin in damaged else "")
                title = f"{one.name or 'no column'}, {one.role}".removesuffix(", ")
                runs.append(Run(one.text, colour, title))
                at = one.end
            if at < record.end:
                runs.append(Run(_between(body[at : record.end])))
                at = record.end
        return tuple(runs)


def _between(raw: bytes) -> str:
    """Return what is between fields as text."""
    return raw.decode(errors="replace").replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class Made:
    """An operation that a message gives."""

    kind: str
    table: str
    indicator: str
    time: str
    tx_id: str
    cells: tuple[Cell, ...]
    tokens: tuple[tuple[str, str | None], ...]


def _operation(row: dict[str, Any], capture: Capture) -> Made:
    """Return a row of the operations table for the page."""
    before, after = (dict(row[name] or ()) for name in ("before", "after"))
    kind = row["op_type"]
    cells = tuple(
        cell_of(column, _side(before, column.name), _side(after, column.name), kind)
        for column in capture.definitions.table(row["table"]).columns
    )
    time_text = "" if row["op_ts"] is None else f"{row['op_ts']:%Y-%m-%d %H:%M:%S.%f}"
    tokens = tuple(((row["tokens"] and dict(row["tokens"])) or {}).items())
    return Made(
        kind,
        row["table"],
        row["tx_ind"],
        time_text.removesuffix(".000000"),
        row["tx_id"],
        cells,
        tokens,
    )


def _side(image: Mapping[str, str | None], name: str) -> Side:
    """Return a value of an image as it is shown."""
    return side_of(image[name]) if name in image else MISSING


def examine(bench: Workbench, sheet: Sheet) -> Found:
    """Return what a page's properties make of its message; what is wrong is in its faults."""
    return _Examined(bench, sheet).run()


def proposed(sheet: Sheet) -> Sheet:
    """Return the fields with properties proposed from the message; raises TrailgateError where none can be."""
    return replace(sheet, properties=propose([sheet.body]).text, earlier=sheet.properties)
