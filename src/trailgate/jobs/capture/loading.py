"""Load everything that a capture needs before it reads a message.

`load_with_notes` reads the properties file, the definitions or copybooks that it names, and the
Extract parameter file, and returns a `LoadedCapture` with the `Capture` inside. Values of @GETENV
are filled in from this machine. If neither properties nor definitions describe the tables,
`infer_capture_tables` reads the messages once and infers them.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from trailgate.capture.capture import Capture
from trailgate.capture.formats import find_parser_type, parser_type_of
from trailgate.cobol.copybook.layouts import CobolDialect, CopybookLayout
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.errors import OptionError, StorageError, Where
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.jobs.included_files import add_machine_items, include_reader
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.properties import parse_properties
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments
from trailgate.storage.files.addresses import absolute, address_exists, folder_of, is_file
from trailgate.storage.files.copy_members import MemberFinder
from trailgate.storage.files.text_files import read_source, read_text_file
from trailgate.storage.reading.message_files import MessageFiles, read_messages
from trailgate.storage.writing.segments import MAX_BYTES
from trailgate.trail.format.tokens import GGS_TOKEN_ROWS, MAX_NAME, UNREAD
from trailgate.trail.reading.tokens import SYSTEM_KEY_TOKEN, UNDO_TOKEN
from trailgate.trail.writing.token_maps import UNNAMED
from trailgate.trail.writing.trail_format import TrailFormat

if TYPE_CHECKING:
    from trailgate.expressions.extract_files import ExtractParameters
    from trailgate.jobs.capture.options import CaptureArguments

RESERVED: Final = frozenset(
    {UNREAD, UNDO_TOKEN, SYSTEM_KEY_TOKEN, *(row.name for row in GGS_TOKEN_ROWS)}
)


OF_CONNECTION: Final = ("jms.", "java.naming.")


def _check_user_tokens(rules: CaptureRules) -> None:
    """Raise OptionError if the name of a user token that a capture adds is too long, or already has a meaning in trails."""
    for rule in rules.statements:
        for token in rule.tokens:
            if token.name in RESERVED or UNNAMED.fullmatch(token.name):
                problem = f"the token {token.name} has the name of one of GoldenGate's own tokens"
                raise rule.error(problem, "TOKENS", "Choose another name")
            if not 0 < len(token.name.encode()) <= MAX_NAME or "\0" in token.name:
                problem = (
                    f"the token's name {token.name[:40]!r} must have 1 to {MAX_NAME} bytes of text"
                )
                raise rule.error(problem, "TOKENS")


def infer_capture_tables(
    capture: Capture, source: MessageFiles, definitions: Definitions | None = None
) -> Capture:
    """Complete a capture with tables inferred from its message files, if the properties define none.

    This reads all messages once.

    `definitions` are the tables of the existing trail. They are used for tables that these messages
    do not describe. Raises DefinitionError if records of one table have different numbers of
    columns, or a column is described in two ways.
    """
    if not capture.options.infers:
        return capture
    return infer_from_batches(
        capture, (read.messages for read in read_messages(source)), definitions
    )


def infer_from_batches(
    capture: Capture, batches: Iterable[MessageBatch], definitions: Definitions | None = None
) -> Capture:
    """Complete a capture with tables inferred from batches of messages; see `infer_capture_tables`."""
    options = capture.options
    if not options.infers:
        return capture
    tables = parser_type_of(options).inference(options)
    for messages in batches:
        tables.add(messages)
    inferred = tables.definitions()
    # Tables of the existing trail that these messages do not describe.
    before = (table for table in definitions or () if inferred.get(table.name) is None)
    tables_with_keys = capture.rules.with_keys(inferred.merge(before))
    return replace(
        capture, options=options.with_tables(tables_with_keys), definitions=tables_with_keys
    )


PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class LoadedCapture:
    """A capture loaded from files, and further contents of these files.

    `notes` are the properties without effect (name, reason), `extract` contains the parameters of
    the Extract file if one was read, and `connection` the broker connection's properties (name,
    value).
    """

    capture: Capture
    notes: tuple[tuple[str, str], ...] = ()
    extract: ExtractParameters | None = None
    connection: tuple[tuple[str, str], ...] = ()

    def writing(self, arguments: CaptureArguments) -> dict[str, Any]:
        """Return how the trail is written: the arguments of WriteOptions.

        `arguments` take precedence over the Extract parameter file.
        """
        names = ("format_release", "byte_order", "update_format", "max_bytes")
        *named, size = (
            getattr(arguments, one) or getattr(self.extract, one, None) for one in names
        )
        return {
            "max_bytes": size or MAX_BYTES,
            "seq_digits": arguments.seq_digits,
            "trail_format": TrailFormat.from_options(*named),
        }


@check_arguments
def load_capture(
    properties: PathLike | None = None,
    extract: PathLike | None = None,
    rules: CaptureRules | None = None,
    definitions: PathLike | None = None,
    *,
    base: PathLike | None = None,
    ignore_unsupported: bool = False,
) -> Capture:
    """Load a capture from a properties file, or from an Extract parameter file that names one.

    The definitions file is the one named in the properties, unless `definitions` names another.
    Relative paths, also those inside the files, start from `base`, or else from the working folder.
    Tables defined in the properties are added to the tables of the definitions file. `rules` override
    the rules of the parameter file.

    Raises OptionError if the parameter file has an unsupported parameter that would change the
    captured data, unless `ignore_unsupported` is set.
    """
    loaded = load_with_notes(
        properties, extract, rules, definitions, base=base, ignore_unsupported=ignore_unsupported
    )
    warn_of_ignored_parameters(loaded)
    return loaded.capture


def warn_of_ignored_parameters(loaded: LoadedCapture) -> None:
    """Warn about each Extract parameter that a loaded capture ignores, because `ignore_unsupported` is set."""
    for line, text, why in () if loaded.extract is None else loaded.extract.ignored:
        warnings.warn(f"ignored: line {line}, {text}: {why}", stacklevel=3)


def load_with_notes(
    properties: PathLike | None = None,
    extract: PathLike | None = None,
    rules: CaptureRules | None = None,
    definitions: PathLike | None = None,
    *,
    base: PathLike | None = None,
    ignore_unsupported: bool = False,
) -> LoadedCapture:
    """Load a capture from its properties or Extract file, with notes about these files.

    The arguments and errors are those of `load_capture`.
    """
    parameters = None
    if ignore_unsupported and extract is None:
        problem = "ignore_unsupported needs an Extract parameter file, but none is given"
        raise OptionError(problem, hint="Omit it, or name the file with extract")
    base = None if base is None else absolute(base)
    if extract is not None:
        from trailgate.expressions.extract_files import parse_extract  # noqa: PLC0415  seldom needed

        parameters = parse_extract(
            _read_named(extract, "parameter", base).decode("utf-8", "replace"),
            source=str(extract),
            read=include_reader(absolute(extract, base)),
            ignore_unsupported=ignore_unsupported,
        )
        # An argument overrides the SOURCEDEFS parameter.
        definitions = definitions or parameters.sourcedefs
    if properties is None:
        if parameters is None:
            raise OptionError("no properties file is named", hint="Give --properties or --extract")
        properties = parameters.properties_path
    parsed = parse_properties(_read_named(properties, "properties", base), source=str(properties))
    files = _Files(None if definitions is None else str(definitions), base)
    options, tables = find_parser_type(parsed).setup(parsed, files)
    if rules is None:
        rules = CaptureRules() if parameters is None else parameters.rules
    try:
        _check_user_tokens(rules)
        around = add_machine_items(rules.environment, rules.environment_items())
        rules = replace(rules, environment=around)
        capture = Capture(options, rules.with_keys(tables), rules, now=time.time_ns() // 1000)
        capture.check()
    # Errors of rules are located in the parameter file, not in the properties.
    except OptionError as error:
        raise error.with_place(source=None if extract is None else str(extract)) from None
    connection = tuple(
        (entry.name, entry.value)
        for entry in parsed.entries
        if entry.name.startswith(OF_CONNECTION)
    )
    notes = (*parsed.notes, *_unused_owner(capture))
    return LoadedCapture(capture, notes, parameters, connection)


def _unused_owner(capture: Capture) -> Iterator[tuple[str, str]]:
    """Yield a note if the properties name the owner or name of transactions, but no rule uses it."""
    if capture.options.by_id:  # no property names them
        return
    rules, asked = capture.rules, capture.rules.environment_items()
    for name, source, item, left_out in (
        ("txowner", capture.options.txowner, "USERNAME", rules.users),
        ("txname", capture.options.txname, "NAME", rules.transactions),
    ):
        if source is not None and not left_out and ("TRANSACTION", item) not in asked:
            yield (
                name,
                "it is written to a trail only if TOKENS of an Extract parameter file ask for it",
            )


def load_definitions(properties: PathLike) -> Definitions:
    """Read the tables that a capture's properties define, for any parser."""
    parsed = parse_properties(_read_named(properties, "properties"), source=str(properties))
    return find_parser_type(parsed).tables(parsed, _Files(None))


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads the definition files that properties name. `instead` replaces the definitions file.

    Relative paths start from `base`, or else from the working folder.
    """

    instead: str | None
    base: str | None = None

    def chosen(self, path: str) -> str:
        return path if self.instead is None else self.instead

    def sourcedefs(self, path: str) -> Definitions:
        return read_sourcedefs(_read_named(path, "definitions", self.base), source=path)

    def copybook(self, path: str, dialect: CobolDialect) -> list[CopybookLayout]:
        if self.instead is not None:
            problem = f"the definitions come from the copybook {path}, not from {self.instead}"
            raise OptionError(problem, hint="Omit the definitions file")
        address = _existing_file(path, "copybook", self.base)
        # COPY members are searched in the folder of the copybook.
        members = MemberFinder.of([folder_of(address)], "Copy the member into this folder")
        text = read_source(address)
        from trailgate.cobol.copybook.reader import read_copybook  # noqa: PLC0415  for copybooks

        return read_copybook(
            text, source=path, dialect=dialect, member=members, missing=members.missing
        )


def _read_named(path: PathLike, subject: str, base: str | None = None) -> bytes:
    address = path if base is None else absolute(path, base)
    try:
        return read_text_file(address, f"{subject} file")
    except StorageError:
        if is_file(address):
            raise
        raise _missing(path, subject, base) from None


def _existing_file(path: str, subject: str, base: str | None) -> str:
    """Return the address of a file that the properties name. Raises OptionError if it is missing.

    `subject` names the kind of file in the error, for example "copybook".
    """
    address = path if base is None else absolute(path, base)
    if not is_file(address):
        raise _missing(path, subject, base)
    return address


def _missing(path: PathLike, subject: str, base: str | None) -> OptionError:
    place = absolute(path, base)
    hint = "" if place == str(path) else f"Looked for at {place}: relative paths are from "
    hint += "" if not hint else "the working folder" if base is None else "the base"
    reason = "is a folder" if address_exists(place) else "does not exist"
    return OptionError(f"the {subject} file {reason}", where=Where(source=str(path)), hint=hint)


def override_rules(loaded: LoadedCapture, arguments: CaptureArguments) -> LoadedCapture:
    """Override rules of a loaded capture by switches such as ``--no-compress-updates``.

    A switch that is set takes precedence over the parameter file.
    """
    rules = loaded.capture.rules
    rules = replace(
        rules,
        compress_updates=rules.compress_updates and not arguments.no_compress_updates,
        update_befores=rules.update_befores or arguments.update_befores,
        compress_deletes=rules.compress_deletes and not arguments.no_compress_deletes,
    )
    return replace(loaded, capture=replace(loaded.capture, rules=rules))
