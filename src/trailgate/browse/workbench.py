"""The workbench: a page with a message and properties, and the result of capturing it, updated while the user types.

The workbench reads only these files of the machine, and only when a page is opened: the properties
file that the command names, the files named in it, and the messages of the folder. Edited text is
parsed from the request alone: a file that the properties name must be one of the texts on the page,
so that a request cannot choose files to read. Copybooks find their COPY members in their own
folder, as in a capture, if they are files that the command's properties name. Nothing is written
except properties, if ``--save-to`` allows it.

The fields of the page are a ``Sheet``; ``examine_sheet`` turns it into a ``SheetResult`` with
faults and results.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from trailgate.browse.message_views import MessageView, find_record_errors, format_message, view_of
from trailgate.browse.shown_operations import MISSING, ShownCell, ShownValue, show_cell, show_value
from trailgate.capture.capture import Capture
from trailgate.capture.formats import find_parser_type, parser_type_of
from trailgate.cobol.copybook.layouts import CobolDialect, CopybookLayout
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.errors import DefinitionError, OptionError, StorageError, TrailgateError, Where
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.formats.xml.options import XmlOptions
from trailgate.jobs.proposals import propose
from trailgate.messages.message_batch import MessageBatch, messages_from
from trailgate.messages.properties import Properties, parse_properties
from trailgate.messages.property_rows import PropertyType
from trailgate.messages.property_table import find_property as property_row
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import folder_of
from trailgate.storage.files.copy_members import MemberFinder
from trailgate.storage.files.text_files import read_file

if TYPE_CHECKING:
    from trailgate.formats.xml.coverage import Explanation

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST: Final = 1 << 20  # the most bytes of a message or a text
POSTED: Final = 4 * LARGEST  # the most bytes of a request, in which texts are escaped
LISTED: Final = 500  # the most messages listed of the folder
OPERATIONS: Final = 50  # the most operations shown
FAULTS: Final = 20  # the most faults shown
# Show everything that messages contain, even what the options of a capture would skip.
RULES: Final = CaptureRules(compress_updates=False, update_befores=True, compress_deletes=False)
NEW: Final = "capture.properties"  # the default name of properties
MESSAGE: Final = "the message"
FORMS: Final = {"lf": "text", "crlf": "text, lines end in CR LF", "hex": "bytes in hex"}
_FILE_NAME: Final = re.compile(r"\w[\w.-]{0,100}", re.ASCII)
_PAIR: Final = re.compile(r"[0-9A-Fa-f]{2}")
_NO_PAIR: Final = re.compile(r"[^0-9A-Fa-f\s]|(?<![0-9A-Fa-f])[0-9A-Fa-f](?![0-9A-Fa-f])")


@dataclass(frozen=True, slots=True)
class SheetFile:
    """A file named in the workbench's properties, with its text: the file's content, or the user's edited text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """The contents of the workbench page's fields.

    ``form`` is the form of ``message``: "lf", "crlf" or "hex" (``format_message``). ``chosen`` is the
    name of the chosen message of the folder. ``earlier`` are the properties that a proposal
    replaced.
    """

    message: str = ""
    form: str = "lf"
    headers: str = ""
    properties: str = ""
    files: tuple[SheetFile, ...] = ()
    chosen: str = ""
    earlier: str = ""

    @property
    def body(self) -> bytes:
        """The bytes of the workbench's message. Raises OptionError if its hex digits are not pairs."""
        if self.form != "hex":
            text = self.message.encode()
            return text.replace(b"\n", b"\r\n") if self.form == "crlf" else text
        # a character that is not a hex digit, or a single hex digit
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
        """Convert a byte offset of the message to the index of the character there."""
        if self.form == "hex":
            starts = [match.start() for match in _PAIR.finditer(self.message)]
            return starts[offset] if offset < len(starts) else len(self.message)
        # errors="ignore" drops a character that the offset cuts in two.
        head = self.body[:offset]
        text = head.decode(errors="ignore")
        # The page's text has LF where the body has CR LF, so each pair is one character there.
        return len(text) - (text.count("\r\n") if self.form == "crlf" else 0)


@dataclass(frozen=True, slots=True)
class SheetFault:
    """An error to show on the workbench page, with its position in the text that the user entered.

    ``pane`` is the page's input field that contains the text. ``line`` is 0 if it is not known.
    ``excerpt`` is the line, split into the text before, in and after the marked span.
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
class TextRun:
    """A piece of the workbench's message with its colour and its meaning.

    Bytes between fields have no colour and no meaning.
    """

    text: str
    colour: str = "soft"
    title: str = ""


@dataclass(frozen=True, slots=True)
class SheetResult:
    """The result that the workbench shows for a sheet: the message with its fields, the parsed operations, and the errors."""

    faults: tuple[SheetFault, ...] = ()
    more_faults: int = 0
    notes: tuple[tuple[str, str], ...] = ()
    parser: str = ""
    view: MessageView = field(default_factory=MessageView)
    runs: tuple[TextRun, ...] = ()
    damaged: frozenset[int] = frozenset()  # the offsets of fields with faults
    rules: Explanation | None = None
    # The line in the properties of each XML rule.
    lines: Mapping[str, int] = field(default_factory=dict)
    operations: tuple[SheetOperation, ...] = ()
    more: int = 0
    counts: tuple[int, int] = (0, 0)  # operations and tables
    tried: bool = False


class Workbench:
    """The files that the command ``trailgate browse`` names for the workbench.

    ``properties`` is a file, ``messages`` a folder of messages to choose from, and ``save_to`` the
    folder to which properties may be written; each may be None. ``copybooks`` are the files that
    the properties name.
    """

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
            # Only read here: the page reads the file again, as it is then.
            self._text(properties)  # an error now rather than on the page
        self.copybooks: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name of the workbench's properties file."""
        return NEW if self.properties is None else Path(self.properties).name

    @property
    def title(self) -> str:
        """The title of the workbench page if the command names no trail."""
        return self.properties or self.messages or NEW

    def read(self) -> Sheet:
        """Read the fields of the workbench page from the current files.

        The message is the first one of the folder.
        """
        sheet = Sheet()
        if self.properties is not None:
            text = self._text(self.properties)
            sheet = replace(sheet, properties=text, files=tuple(self._files_in(text)))
            self.copybooks |= {file.name for file in sheet.files}
        names = self.names()
        return self.load(sheet, names[0]) if names else sheet

    def names(self) -> list[str]:
        """Return the names of the messages in the workbench's folder."""
        if self.messages is None:
            return []
        entries = Path(self.messages).iterdir()
        # Names that begin with a point or an underscore are hidden.
        files = (one.name for one in entries if one.name[0] not in "._" and one.is_file())
        return sorted(files)[:LISTED]

    def load(self, sheet: Sheet, name: str) -> Sheet:
        """Replace the workbench's message by a message of the folder.

        Raises OptionError if the folder has no message of this name.
        """
        if self.messages is None or name not in self.names():
            raise OptionError(f"the folder has no message {name!r}")
        path = Path(self.messages, name)
        if path.stat().st_size > LARGEST:
            problem = f"the message has more than {LARGEST >> 20} MB"
            raise OptionError(problem, where=Where(source=str(path)), hint="Choose a part of it")
        text, form = format_message(path.read_bytes())
        return replace(sheet, message=text, form=form, chosen=name)

    def save(self, name: str, text: str, *, overwrite: bool) -> str:
        """Write the edited properties to the workbench's folder for them, and return the path.

        Raises OptionError if the file exists, unless ``overwrite`` is set, and if it is a link,
        because the file that it names may be in another folder.
        """
        if self.save_to is None or not _FILE_NAME.fullmatch(name):
            raise OptionError(f"{name!r} is not a valid name for the file")
        path = Path(self.save_to, name)
        if path.is_symlink():
            problem = f"{name} is a link to another file"
            raise OptionError(problem, where=Where(source=str(path)), hint="Choose another name")
        try:
            # "xb" fails if the file exists, also if it was created a moment ago.
            with path.open("wb" if overwrite else "xb") as file:
                file.write(as_file(text))
        except FileExistsError:
            hint = "Overwrite it, or choose another name"
            raise OptionError(f"{name} exists already", hint=hint) from None
        except OSError as error:
            problem = f"the file cannot be written: {error.strerror}"
            raise StorageError(problem, where=Where(source=str(path))) from None
        return str(path)

    def _text(self, path: str) -> str:
        r"""Read a properties file as text.

        Bytes that are not UTF-8 become ``\xHH`` escapes, which properties allow.
        """
        raw = read_file(path, "properties")
        text = raw.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n")
        return text.replace("\0", r"\x00")

    def _files_in(self, properties: str) -> Iterable[SheetFile]:
        """Yield the existing files that properties name, even if the properties contain errors."""
        for name in dict.fromkeys(paths_in_properties(properties)):
            try:
                raw = read_file(name)
            except (TrailgateError, ValueError):
                continue
            if len(raw) <= LARGEST:
                yield SheetFile(name, _as_text(raw))


def as_file(text: str) -> bytes:
    """Encode the workbench's properties for a file."""
    return (text if text.endswith("\n") else f"{text}\n").encode()


def paths_in_properties(properties: str) -> list[str]:
    """Return the paths of the files that the workbench's properties name, even if the properties contain errors."""
    paths = []
    for line in properties.split("\n"):
        name, equals, value = line.strip().partition("=")
        # Parse line by line, because the parser of properties stops at errors.
        row = property_row(name.strip()) if equals and not name.startswith("#") else None
        if row is not None and row.kind is PropertyType.PATH and value.strip():
            paths.append(value.strip())
    return paths


def _as_text(raw: bytes) -> str:
    """Decode a definitions file or copybook as UTF-8, or else as Latin-1, which accepts all bytes."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\0", " ")


def sheet_of(body: bytes) -> tuple[Sheet, dict[str, str]]:
    """Parse the submitted form of the workbench into a ``Sheet``.

    Also returns the form's fields by name, without those of files. Raises OptionError.
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise OptionError("the request is not the page's form") from None
    given: dict[str, str] = {}
    names, texts = [], []
    for name, value in pairs:
        # Browsers send line ends as CR LF.
        text = value.replace("\r\n", "\n").replace("\r", "\n")
        if name == "file_name":
            names.append(text.strip())
        elif name == "file_text":
            texts.append(text)
        else:
            given[name] = text
    # The form has the fields of one file after those of another, so names and texts are in the same
    # order.
    files = tuple(
        SheetFile(name, text) for name, text in zip(names, texts, strict=False) if name or text
    )
    form = given.get("form", "lf")
    kept = ("message", "headers", "properties", "chosen", "earlier")
    fields = {name: given.get(name, "") for name in kept}
    return Sheet(form=form if form in FORMS else "lf", files=files, **fields), given


@dataclass(frozen=True, slots=True)
class _Texts:
    """Opens the definition files that properties name, from the texts on the page (``DefinitionFiles``).

    ``files`` maps a path in the properties to a text. ``copybooks`` are the paths whose COPY
    members may be read from their folder.
    """

    files: Mapping[str, str]
    properties: Properties
    copybooks: frozenset[str]

    def chosen(self, path: str) -> str:
        return path

    def sourcedefs(self, path: str) -> Definitions:
        return read_sourcedefs(self._text(path).encode(), source=path)

    def copybook(self, path: str, dialect: CobolDialect) -> list[CopybookLayout]:
        from trailgate.cobol.copybook.reader import read_copybook  # noqa: PLC0415  for copybooks

        # Only a copybook that the command's properties name may COPY files of its folder: a path
        # typed in the page must not make the server read files.
        folders = [folder_of(path)] if path in self.copybooks else []
        hint = "Copy the member into this folder" if folders else "Paste it in place of its COPY"
        members, text = MemberFinder.of(folders, hint), self._text(path)
        return read_copybook(
            text, source=path, dialect=dialect, member=members, missing=members.missing
        )

    def _text(self, path: str) -> str:
        if path in self.files:
            return self.files[path]
        entry = next((one for one in self.properties.entries if one.value == path), None)
        known = ", ".join(name for name in self.files if name) or "none"
        hint = f"Paste its text as another file, or name it in the properties file that the command names. The page has: {known}"
        raise self.properties.error(f"the page has no file {path}", entry, hint)


class _Examined:
    """One examination of a sheet: parses the properties, and then the message with them.

    Collects results and errors, and stops at an error that prevents the next step.
    """

    def __init__(self, bench: Workbench, sheet: Sheet) -> None:
        self.bench, self.sheet = bench, sheet
        self.name = bench.properties or NEW
        self.found = SheetResult()
        self.errors: list[TrailgateError] = []

    def run(self) -> SheetResult:
        """Examine the sheet in all steps, and return the results, and the errors with their positions."""
        try:
            self._run()
        except TrailgateError as error:
            self.errors.append(error)
        faults = tuple(self._fault(error) for error in self.errors[:FAULTS])
        wheres = [one.where for one in self.errors if one.where.field is not None]
        damaged = frozenset(one.offset for one in wheres if one.offset is not None)
        runs, more = self._runs(damaged), max(0, len(self.errors) - FAULTS)
        return replace(self.found, faults=faults, more_faults=more, damaged=damaged, runs=runs)

    def _run(self) -> None:
        properties = self._properties()
        if self.errors or not properties.entries:
            return
        parser = find_parser_type(properties)
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
        # A format without definitions infers the tables from the message itself.
        if options.infers:
            inference = parser_type_of(options).inference(options)
            inference.add(messages)
            known = capture.rules.with_keys(inference.definitions())
            capture = replace(capture, options=options.with_tables(known), definitions=known)
        self._parse(capture, messages, body)

    def _properties(self) -> Properties:
        """Parse the properties. An error is recorded, and its line is then treated as empty."""
        lines = self.sheet.properties.split("\n")
        while len(self.errors) < FAULTS:
            try:
                return parse_properties("\n".join(lines).encode(), self.name)
            except OptionError as error:
                self.errors.append(error)
                if not error.where.line:
                    break
                # An empty line keeps the numbers of the lines after it.
                lines[error.where.line - 1] = ""
        return Properties(())

    def _lines(self) -> dict[str, int]:
        """Map each XML rule to its line number in the properties.

        A rule's line is `RULE.match=...` if the rule has one, otherwise `RULE.type=...`.
        """
        lines: dict[str, int] = {}
        for number, line in enumerate(self.sheet.properties.split("\n"), 1):
            rule, _, name = line.partition("=")[0].strip().rpartition(".")
            if name == "match" or (name == "type" and rule not in lines):
                lines[rule] = number
        return lines

    def _headers(self) -> dict[str, str]:
        pairs = (line.partition("=") for line in self.sheet.headers.split("\n") if line.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _parse(self, capture: Capture, messages: MessageBatch, body: bytes) -> None:
        if isinstance(capture.options, XmlOptions):
            from trailgate.formats.xml.coverage import explain_message  # noqa: PLC0415  for XML messages

            rules = explain_message(capture.options, body)
            self.found = replace(self.found, rules=rules, lines=self._lines())
        view = view_of(capture, messages)
        parsed = capture.parse(messages)
        last = capture.at_end(parsed.state)
        self.found = replace(self.found, view=view, tried=True)
        problems = [one.error for one in (*parsed.problems, *last.problems)]
        # Prefer the errors of each record to the one error that refused the message.
        self.errors += (find_record_errors(capture, view, messages) if problems else []) or problems
        # the operations of complete transactions, and those at the end of the input
        every = [row for part in (parsed, last) for row in part.operations().to_pylist()]
        warned = capture.options.notes if self.found.rules else capture.warnings(parsed.notes)
        self.found = replace(
            self.found,
            operations=tuple(_operation(row, capture) for row in every[:OPERATIONS]),
            more=max(0, len(every) - OPERATIONS),
            counts=(len(every), len({row["table"] for row in every})),
            notes=(*self.found.notes, *(("", note) for note in sorted(warned))),
        )

    def _fault(self, error: TrailgateError) -> SheetFault:
        """Locate an error on the workbench page: its input field, line and column."""
        where = error.where
        source = where.source or (MESSAGE if where.offset is not None or where.record else "")
        place = replace(where, source=None, message=None, line=None, column=None, offset=None)
        problem = error.problem + (f" ({place})" if place != Where() else "")
        if source in ("", MESSAGE) and not isinstance(error, (OptionError, DefinitionError)):
            source = MESSAGE
        pane, text = self._pane(source)
        fault = SheetFault(pane, source, problem, error.hint)
        line, column, length = where.line or 0, where.column or 0, 0
        hexed = self.sheet.form == "hex"
        if pane == "message" and where.offset is not None and (hexed or not line):
            # only the byte offset is known, so find its line and column on the page
            begin = self.sheet.index(where.offset)
            end = self.sheet.index(where.offset + len(where.raw or b""))
            line = text.count("\n", 0, begin) + 1
            column, length = begin - text.rfind("\n", 0, begin), end - begin
        if not line:
            return fault
        lines = text.split("\n")
        content = lines[line - 1] if line <= len(lines) else ""
        at = max(0, min(column - 1, len(content))) if column else 0
        stop = min(len(content), at + (length or 1)) if column else len(content)
        begin = max(0, at - 30)
        excerpt = content[begin:at], content[at:stop][:80], content[stop : stop + 40]
        return replace(
            fault, line=line, column=at + 1, length=max(1, length or stop - at), excerpt=excerpt
        )

    def _pane(self, source: str) -> tuple[str, str]:
        """Return the name of the page's input field to which the source of an error belongs, and its text.

        Both are "" if there is no such field.
        """
        if source == self.name:
            return "properties", self.sheet.properties
        if source == MESSAGE:
            return "message", self.sheet.message
        for number, file in enumerate(self.sheet.files):
            if file.name == source:
                return f"file{number}", file.text
        return "", ""

    def _runs(self, damaged: frozenset[int]) -> tuple[TextRun, ...]:
        """Split the workbench's message into fields and the bytes between them. ``damaged`` are the offsets of bad fields."""
        records = self.found.view.records
        body, at, runs = self.sheet.body if records else b"", 0, []
        for record in records:
            for number, one in enumerate(record.fields):
                if one.begin < at:
                    continue  # it overlaps the one before
                if one.begin > at:
                    runs.append(TextRun(_between(body[at : one.begin])))
                colour = f"c{number % 6}" + (" damage" if one.begin in damaged else "")
                title = f"{one.name or 'no column'}, {one.role}".removesuffix(", ")
                runs.append(TextRun(one.text, colour, title))
                at = one.end
            if at < record.end:
                runs.append(TextRun(_between(body[at : record.end])))
                at = record.end
        return tuple(runs)


def _between(raw: bytes) -> str:
    """Decode the bytes between the fields of a message."""
    return raw.decode(errors="replace").replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class SheetOperation:
    """An operation parsed from the workbench's message, formatted for the page."""

    kind: str
    table: str
    indicator: str
    time: int | None
    tx_id: str
    cells: tuple[ShownCell, ...]
    tokens: tuple[tuple[str, str | None], ...]


def _operation(row: dict[str, Any], capture: Capture) -> SheetOperation:
    """Convert a row of the operations table, parsed from the message, for the workbench page."""
    before, after = (dict(row[name] or ()) for name in ("before", "after"))
    kind = row["op_type"]
    cells = tuple(
        show_cell(column, _side(before, column.name), _side(after, column.name), kind)
        for column in capture.definitions.table(row["table"]).columns
    )
    tokens = tuple(((row["tokens"] and dict(row["tokens"])) or {}).items())
    return SheetOperation(
        kind=kind,
        table=row["table"],
        indicator=row["tx_ind"],
        time=None if row["op_ts"] is None else (row["op_ts"] - EPOCH) // timedelta(microseconds=1),
        tx_id=row["tx_id"],
        cells=cells,
        tokens=tokens,
    )


def _side(image: Mapping[str, str | None], name: str) -> ShownValue:
    """Return the value of column ``name`` in an image as the page shows it."""
    return show_value(image[name]) if name in image else MISSING


def examine_sheet(bench: Workbench, sheet: Sheet) -> SheetResult:
    """Run the capture that the workbench page describes on its message.

    Errors become faults in the result.
    """
    return _Examined(bench, sheet).run()


def propose_properties(sheet: Sheet) -> Sheet:
    """Replace the workbench's properties by a proposal from the message.

    Raises TrailgateError if no proposal is possible.
    """
    return replace(sheet, properties=propose([sheet.body]).text, earlier=sheet.properties)
