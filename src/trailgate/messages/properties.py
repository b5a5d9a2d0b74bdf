"""Capture properties, the whole way: a ``.properties`` file's bytes to typed parser options.

``property_file`` reads names and values, ``property_table`` knows them, ``property_values``
types them, and a parser's options (``delimited_options``, ``fixed_width.options``) check them together.
"""

from trailgate.messages.delimited_options import DelimitedOptions, delimited_options
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.property_file import Entry, Properties, parse_properties
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.property_values import Lookup, Source

__all__ = [
    "DelimitedOptions",
    "Entry",
    "Lookup",
    "MetadataOptions",
    "Properties",
    "Source",
    "SourceKind",
    "delimited_options",
    "parse_properties",
]
