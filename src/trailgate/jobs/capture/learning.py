"""Tables that nothing defines, learnt from the messages before they are captured: described in them, or with numbered columns."""

from __future__ import annotations

from dataclasses import replace

from trailgate.messages.capture import Capture
from trailgate.messages.event_publishing.learning import LearntTables
from trailgate.messages.event_publishing.options import EventPublishingOptions
from trailgate.messages.event_publishing.xml.format import page_of
from trailgate.messages.event_publishing.xml.learning import described_tables, united
from trailgate.model.tables import Definitions, Table
from trailgate.storage.reading.message_files import MessageFiles
from trailgate.storage.reading.message_reading import read_messages


def learnt(capture: Capture, source: MessageFiles, known: Definitions | None = None) -> Capture:
    """Return a capture with the tables of its messages, where its properties define none; they are read once for that.

    ``known`` are the tables of the trail before. Raises DefinitionError for a table that is described in two ways, or whose
    records have different numbers of columns.
    """
    options = capture.options
    if not isinstance(options, EventPublishingOptions) or not options.learns:
        return capture
    described: dict[str, Table] = {}
    numbered = LearntTables(options)
    for read in read_messages(source):
        for table in described_tables(read.messages, page_of(options)):
            described[table.name] = united(described, table)
        numbered.add(read.messages)
    own = (known or Definitions(())).merged([*described.values(), *numbered.definitions()])
    if not len(own):
        return capture
    options = replace(options, definitions=own, learns=False)
    return replace(capture, options=options, definitions=capture.rules.defined(own))
