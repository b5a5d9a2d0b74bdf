"""A delimited publication as the delimited engine sees it: the places of its fields (IBM, structure of delimited messages).

``h1,...,h12,`` then the before values of all columns, then their after values. In the adapter's words: with befores, grouped, without
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trailgate.columnar.datetime_formats import DB2_FORMAT
from trailgate.messages.delimited.options import DelimitedOptions
from trailgate.messages.event_publishing.delimited.delimiters import Delimiters
from trailgate.messages.properties.values import Lookup

PROGRAM: Final = b"IBM"  # the identifier of a record that is not flagged
HEADER: Final = (
    "type",
    "identifier",
    "date",
    "time",
    "table_owner",
    "table_name",
    "operation",
    "transaction_identifier",
    "commit_lsn",
    "commit_time",
    "plan_name",
    "segment_number",
)


def engine_options(delimiters: Delimiters, metadata: Mapping[str, Any]) -> DelimitedOptions:
    """Return the options of the delimited engine that reads publications."""
    return DelimitedOptions(
        sourcedefs="",
        header=HEADER,
        fielddelim=delimiters.fielddelim,
        linedelim=delimiters.recorddelim,
        quote=delimiters.quote,
        nullindicator=None,
        fielddelim_escaped=None,
        linedelim_escaped=None,
        quote_escaped=None,
        nullindicator_escaped=None,
        hasbefores=True,
        hasnames=False,
        afterfirst=False,
        isgrouped=True,
        date_format=DB2_FORMAT,
        table_date_formats=Lookup(),
        column_date_formats=Lookup(),
        **metadata,
    )
