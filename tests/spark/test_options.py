"""Every format refuses options that it does not know, and its page names those that it does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql.types import StructType

from option_tables import section, shown, table_in
from trailgate.errors import OptionError
from trailgate.live.spark import OPTIONS as BROKERS
from trailgate.mainframe.spark.reader import ON_SPARK as COPYBOOK
from trailgate.mainframe.spark.reader import CopybookSource
from trailgate.options import FLAG, Options
from trailgate.spark.message_files import OPTIONS as MESSAGES
from trailgate.spark.message_files import MessageCaptureSource
from trailgate.spark.trail import READING, TrailSource
from trailgate.spark.trail_sink import STREAMING, trail_stream_writer, trail_writer


@pytest.mark.parametrize(
    ("source", "wrong", "near"),
    [
        (TrailSource, "fromPositon", r"fromPosition\?"),
        (MessageCaptureSource, "property", r"properties\?"),
        (CopybookSource, "code-pag", r"codePage\?"),
        (CopybookSource, "zzz", "Known: copybook, copybookText"),
    ],
)
def test_a_reader_names_the_option_nearest_to_an_unknown_one(
    source: type, wrong: str, near: str
) -> None:
    with pytest.raises(OptionError, match=f"has no option {wrong}.*{near}"):
        source({"path": "x", wrong: "1"}).schema()


def test_a_stream_writer_takes_the_options_of_spark_itself() -> None:
    given = {"path": "x", "checkpointLocation": "y", "queryName": "z", "maxAgeSecond": "9"}
    with pytest.raises(OptionError, match=r"has no option maxAgeSecond.*maxAgeSeconds\?"):
        trail_stream_writer(given, StructType())


def test_a_writer_names_the_option_nearest_to_an_unknown_one() -> None:
    given = {"path": "x", "seqdigit": "9"}
    with pytest.raises(OptionError, match=r"the format trail has no option seqdigit.*seqDigits\?"):
        trail_writer(given, StructType(), overwrite=False)


@pytest.mark.parametrize(
    ("page", "heading", "options"),
    [
        ("spark.md", "## Options", READING),
        ("spark.md", "## Writing", STREAMING),
        ("spark.md", "## Messages", MESSAGES),
        ("spark.md", "## Messages of a broker", BROKERS),
        ("copybook.md", "All of them take these options", COPYBOOK),
    ],
)
def test_every_option_of_a_format_is_in_the_table_of_its_page(
    page: str, heading: str, options: Options
) -> None:
    rows = [row for row in table_in(section(page, heading)) if row.names[0].isidentifier()]
    assert sorted(name for row in rows for name in row.names) == sorted(
        row.spelling for row in options
    )
    for row in rows:
        own = [option for option in options if option.spelling == row.names[0]]
        if len(row.names) == 1:  # others refer to another table
            text = " ".join(row.rest)
            assert shown(own[0].default) in text, row
            words = own[0].kind.words
            choices = [] if "a " in words else words.replace(" or ", ", ").split(", ")
            if choices[1:] and own[0].kind is not FLAG:
                assert [one for one in choices if f"`{one}`" not in text] == [], row


def test_a_worker_that_writes_trails_loads_nothing_of_messages_and_copybooks() -> None:
    code = (
        "import sys, trailgate.spark.trail_sink; "
        "packages = ('messages', 'formats', 'capture', 'cobol', 'jobs'); "
        "print([name for name in sys.modules if name.startswith('trailgate.')"
        " and name.split('.')[1] in packages])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
