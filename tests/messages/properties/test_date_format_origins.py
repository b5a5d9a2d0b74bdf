"""Promises about date formats: a bad one is blamed on its line, and so is the form that a value does not have."""

from __future__ import annotations

import pytest

from trailgate.errors import OptionError
from trailgate.formats.delimited.options import delimited_options
from trailgate.messages.properties import parse_properties

PROPERTIES = """\
parser.type=delim
delim.sourcedefs=my.def
delim.header=optype,table,ts
delim.optype=optype
delim.schemaandtable=table
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("delim.dateformat=yyyy-MM-dd", "Did you mean YYYY-MM-DD?"),
        ("delim.dateformat=yyyy-mm-dd hh:mm:ss.sss", "Did you mean YYYY-MM-DD HH:MI:SS.FFF?"),
        ("delim.dateformat.MY.T=QQ", "not understood at 'QQ'"),
        ("delim.dateformat.MY.T.DAY=DD/DD", "has the day twice"),
        ("delim.timestamp.format=%Y", "not understood at 'Y'"),
    ],
)
def test_a_bad_format_is_blamed_on_its_line(line: str, said: str) -> None:
    properties = parse_properties(f"{PROPERTIES}{line}\n".encode(), "dirprm/x.properties")
    with pytest.raises(OptionError) as caught:
        delimited_options(properties)

    name = line.partition("=")[0]
    where = caught.value.where
    assert (where.source, where.line) == ("dirprm/x.properties", PROPERTIES.count("\n") + 1)
    assert str(where.field).casefold() == name.casefold()
    assert said in str(caught.value)
