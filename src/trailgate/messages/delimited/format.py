r"""Delimited messages to records and images, a batch at a time (capture properties §6).

``METACOLSn[,COLNAMES]m[,COLBEFOREVALS]m,{COLVALUES}m\n``: n header fields, then m columns, each
with a value and, where configured, its name and before value, grouped in blocks or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.delimited import BrokenQuotesError, Dialect, Fields, index_fields
from trailgate.columnar.views import octets
from trailgate.errors import DecodeError
from trailgate.messages.delimited.field_values import FieldValues
from trailgate.messages.delimited.options import DelimitedOptions
from trailgate.messages.delimited.record_images import ImageReader
from trailgate.messages.delimited.records import DelimitedRecords
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageFormat
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.model.changes import Image
from trailgate.model.tables import Table

MakeValues = Callable[[Octets, Fields, DelimitedOptions], FieldValues]


class DelimitedFormat(MessageFormat[DelimitedRecords]):
    """Reads records by one set of options; what these decide is made once and kept.

    ``values`` makes what copies values, and ``images`` reads images, where a kind of delimited messages has its own.
    """

    def __init__(
        self,
        options: DelimitedOptions,
        values: MakeValues = FieldValues,
        images: ImageReader | None = None,
    ) -> None:
        self.options, self._values = options, values
        # In quotes delimiters are data anyway; outside an escape means nothing where there are quotes (decision 0026).
        escapes = () if options.quote else (options.fielddelim_escaped, options.linedelim_escaped)
        self.dialect = Dialect(
            options.fielddelim,
            options.linedelim,
            options.quote,
            options.quote_escaped,
            tuple(escape for escape in escapes if escape),
            returns=options.linedelim == b"\n",
        )
        self._images = images or ImageReader(options)

    @property
    def has_befores(self) -> bool:
        """Return whether records of updates may have before values."""
        return self.options.hasbefores

    def records(self, messages: MessageBatch) -> DelimitedRecords:
        """Return the records of the messages, each with all header fields."""
        data = octets(messages.data)
        try:
            fields = index_fields(data, messages.starts, messages.ends, self.dialect)
        except BrokenQuotesError as quotes:
            raise BadMessagesError(quotes.bodies) from None
        owner = fields.body
        values = self._values(data, fields, self.options)
        values.check_text(messages)
        offset = fields.starts[fields.first] - messages.starts[owner]
        records = DelimitedRecords(messages, owner, offset, fields, values)
        self._check_headers(records)
        return records

    def _check_headers(self, records: DelimitedRecords) -> None:
        least, count = len(self.options.header), records.fields.count
        short = np.flatnonzero(count < least)
        if len(short):
            hint = "Is the field delimiter right, or is the record cut off?"

            def error(row: int) -> DecodeError:
                problem = f"{int(count[row])} fields where the header alone has {least}"
                return records.error(row, problem, hint)

            records.refuse(short, error)

    def layouts(
        self,
        records: DelimitedRecords,
        tables: Sequence[Table],  # noqa: ARG002  the number of fields decides
        table_of: Longs,  # noqa: ARG002
    ) -> Longs:
        """Return how many fields each record has."""
        return records.fields.count

    def images(
        self, records: DelimitedRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of alike records; what is wrong is added to the errors."""
        return self._images.images(records, table, kind, rows, errors)
