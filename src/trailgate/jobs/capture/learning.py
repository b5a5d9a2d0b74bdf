"""Tables that nothing defines: found in a pass over the messages before the run, as these describe them or as their records look."""

from __future__ import annotations

from dataclasses import replace

from trailgate.messages.capture import Capture
from trailgate.messages.event_publishing.kinds import looks_delimited
from trailgate.messages.event_publishing.learning import LearntTables
from trailgate.messages.event_publishing.options import EventPublishingOptions
from trailgate.messages.event_publishing.xml.format import page_of
from trailgate.messages.event_publishing.xml.learning import described_tables, united
from trailgate.model.tables import Definitions, Table
from trailgate.storage.reading.message_files import MessageFiles
from trailgate.storage.reading.message_reading import read_messages


def with_described_tables(
    capture: Capture, source: MessageFiles, known: Definitions | None = None
) -> Capture:
    """Return a capture with the tables of its messages, where it has none; ``known`` are those of the trail before.

    XML messages describe their tables; those of delimited ones have numbered columns. Raises DefinitionError where a table is described in
    two ways, or its records have different numbers of columns.
    """
    options = capture.options
    if not isinstance(options, EventPublishingOptions) or not options.learns:
        return capture
    found: dict[str, Table] = {}
    numbered = LearntTables(options)
    for read in read_messages(source):
        if looks_delimited(read.messages):
            numbered.add(read.messages)
            continue
        for table in described_tables(read.messages, page_of(options)):
            found[table.name] = united(found, table)
    definitions = (known or Definitions(())).merged((*found.values(), *numbered.definitions()))
    if not len(definitions):
        return capture
    options = replace(options, definitions=definitions, learns=False)
    return replace(capture, options=options, definitions=capture.rules.defined(definitions))
