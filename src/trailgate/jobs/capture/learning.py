"""Tables that nothing defines, learnt from the messages before they are captured."""

from __future__ import annotations

from dataclasses import replace

from trailgate.messages.capture import Capture
from trailgate.messages.event_publishing.learning import LearntTables
from trailgate.messages.event_publishing.options import EventPublishingOptions
from trailgate.storage.reading.message_files import MessageFiles
from trailgate.storage.reading.message_reading import read_messages


def learnt(capture: Capture, source: MessageFiles) -> Capture:
    """Return a capture with the tables of its messages, where its properties define none; they are read once for that.

    Raises DefinitionError for a table whose records have different numbers of columns.
    """
    options = capture.options
    if not isinstance(options, EventPublishingOptions) or not options.learns:
        return capture
    tables = LearntTables(options)
    for read in read_messages(source):
        tables.add(read.messages)
    found = capture.rules.defined(tables.definitions())
    own = replace(options, definitions=found, learns=False)
    return replace(capture, options=own, definitions=found)
