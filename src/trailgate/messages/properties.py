"""Capture properties, the whole way: a ``.properties`` file's bytes to typed parser options.

``property_file`` reads names and values, ``property_table`` knows them, ``property_values``
types them, and ``property_options`` checks them together.
"""

from trailgate.messages.property_file import Entry, Properties, parse_properties
from trailgate.messages.property_options import DelimitedOptions, delimited_options
from trailgate.messages.property_table import SourceKind
from trailgate.messages.property_values import Lookup, Source

__all__ = [
    "DelimitedOptions",
    "Entry",
    "Lookup",
    "Properties",
    "Source",
    "SourceKind",
    "delimited_options",
    "parse_properties",
]
