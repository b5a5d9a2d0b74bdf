"""Tables that nothing defines, learnt from the messages before they are captured."""

from __future__ import annotations

from dataclasses import replace

from trailgate.messages.capture import Capture
from trailgate.messages.parsers import row_of
from trailgate.model.tables import Definitions
from trailgate.storage.reading.messages.batches import read_messages
from trailgate.storage.reading.messages.files import MessageFiles


def learnt(capture: Capture, source: MessageFiles, known: Definitions | None = None) -> Capture:
    """Return a capture with the tables of its messages, where its properties define none; they are read once for that.

    ``known`` are the tables of the trail before: one that the messages do not describe now is one of these. Raises DefinitionError for a
    table whose records have different numbers of columns, or that is described in two ways.
    """
    options = capture.options
    if not options.learns:
        return capture
    tables = row_of(options).learner(options)
    for read in read_messages(source):
        tables.add(read.messages)
    own = tables.definitions()
    before = (table for table in known or () if own.get(table.name) is None)
    found = capture.rules.defined(own.merged(before))
    return replace(capture, options=options.with_tables(found), definitions=found)
