"""Tables that messages describe themselves, for captures without definitions: found in a pass over the messages before the run."""

from __future__ import annotations

from dataclasses import replace

from trailgate.messages.capture import Capture
from trailgate.messages.event_publishing.options import EventPublishingOptions
from trailgate.messages.event_publishing.xml.format import page_of
from trailgate.messages.event_publishing.xml.learning import described_tables, united
from trailgate.model.tables import Definitions, Table
from trailgate.storage.reading.message_files import MessageFiles
from trailgate.storage.reading.message_reading import read_messages


def with_described_tables(
    capture: Capture, source: MessageFiles, known: Definitions | None = None
) -> Capture:
    """Return a capture with the tables that the messages describe, where it has none; ``known`` are those of the trail before.

    Raises DefinitionError where a table is described in two ways.
    """
    options = capture.options
    if not isinstance(options, EventPublishingOptions) or not options.learns:
        return capture
    found: dict[str, Table] = {}
    for read in read_messages(source):
        for table in described_tables(read.messages, page_of(options)):
            found[table.name] = united(found, table)
    definitions = (known or Definitions(())).merged(found.values())
    if not len(definitions):
        return capture
    options = replace(options, definitions=definitions, learns=False)
    return replace(capture, options=options, definitions=capture.rules.defined(definitions))
