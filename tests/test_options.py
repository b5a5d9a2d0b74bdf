"""Options are rows: each has its flag, its keyword, its option on Spark, and its row in the documentation, which states what it may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import trailgate
from option_tables import command_options, options_of, section, shown, table_in
from trailgate.apply.jobs.options import OPTIONS as APPLIED
from trailgate.capture.formats import PUBLICATIONS
from trailgate.cli.commands.redact import RedactArguments
from trailgate.cli.main import ALIASES, COMMANDS
from trailgate.errors import OptionError
from trailgate.jobs.capture.options import CaptureArguments
from trailgate.live.brokers.address import OPTIONS as OF_ADDRESSES
from trailgate.options import Option, field_options
from trailgate.publish.commands.publish import PublishArguments
from trailgate.storage.reading.options import OPTIONS

DOCS = Path(__file__).parent.parent / "docs"
NO_FLAG = {"columns"}  # a front end chooses columns in its own way
OTHER_FLAG = {"max_bytes": "--max-size"}  # takes units


def flag(row: Option) -> str:
    return OTHER_FLAG.get(row.name, f"--{row.name.replace('_', '-')}")


@pytest.mark.parametrize("row", list(OPTIONS), ids=lambda row: row.name)
def test_an_option_of_reading_is_a_flag_a_keyword_and_documented(row: Option) -> None:
    assert row.name in NO_FLAG or flag(row) in options_of("show")
    assert row.name in signature(trailgate.read_trail).parameters
    assert f"`{row.spelling}`" in (DOCS / "spark.md").read_text()


def test_options_of_writing_on_spark_are_flags_of_the_capture_and_documented() -> None:
    sink: Any = pytest.importorskip("trailgate.spark.trail_sink")
    for row in sink.WRITING:
        assert flag(row) in options_of("capture")
        assert f"`{row.spelling}`" in (DOCS / "spark.md").read_text()


def test_each_field_of_a_captures_arguments_is_a_flag_in_their_order() -> None:
    rows = field_options(CaptureArguments)
    other = {
        "source": "--from",
        "target": "--to",
        "apply_to": "--apply",
        "publish_to": "--publish",
        "as_json": "--json",
    }
    assert [other.get(row.name, flag(row)) for row in rows] == options_of("capture")[:-1]


@pytest.mark.parametrize("command", list(ALIASES))
def test_earlier_names_are_understood_and_not_shown(command: str) -> None:
    shown = options_of(command)
    assert command in COMMANDS
    assert {name.partition("=")[0] for name in ALIASES[command].values()} <= set(shown)
    assert not set(ALIASES[command]) & set(shown)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_the_page_of_a_command_has_a_row_for_each_option(command: str) -> None:
    tables = table_in(section("cli.md", f"\n## trailgate {command}\n"))
    rows = {row.names[0]: row for row in tables if row.names[0].startswith("-")}
    options = {option.names[0]: option for option in command_options(command)}

    assert sorted(rows) == sorted(options)
    for name, option in options.items():
        documented = rows[name]
        assert (name, documented.names) == (name, option.names)
        assert (name, documented.value) == (name, option.value)
        assert shown(option.default) in " ".join(documented.rest), name


# Of a function and its command: the keywords that only the function has, and the flags that only the command has.
OF_RUNS = {
    "target",
    "apply_to",
    "publish_to",
    "publish_format",
    "as_json",
    "master",
    "threads",
}
OF_BROKERS = {"follow", "until_empty", "remember_ids", "metrics"}
OF_RULES = {"no_compress_updates", "update_befores", "no_compress_deletes"}


@pytest.mark.parametrize(
    ("function", "arguments", "own", "flags"),
    [
        (
            trailgate.capture_files,
            CaptureArguments,
            {"trail", "runner"},
            OF_RUNS | OF_BROKERS | OF_RULES,
        ),
        (
            trailgate.publish_trail,
            PublishArguments,
            {"trail", "to", "file_bytes", "options", "progress"},
            {"target", "option", "as_json", "follow", "status", "metrics"},
        ),
        (trailgate.redact_trail, RedactArguments, {"trail", "to"}, {"target", "as_json"}),
    ],
)
def test_the_keywords_of_a_function_are_the_flags_of_its_command(
    function: Callable[..., Any], arguments: type[Any], own: set[str], flags: set[str]
) -> None:
    keywords = {name: one.default for name, one in signature(function).parameters.items()}
    fields = {field.name: field.default for field in dataclasses.fields(arguments)}

    assert set(keywords) - own == set(fields) - flags
    shared = set(keywords) & set(fields) - {"source"}
    assert {name: keywords[name] for name in shared} == {name: fields[name] for name in shared}


def test_the_help_of_a_publication_names_its_formats() -> None:
    (value,) = [one.value for one in command_options("publish") if one.names == ("--format",)]

    assert sorted(value.split("|")) == sorted(row.name for row in PUBLICATIONS)


def test_every_option_of_an_address_is_documented() -> None:
    text = section("live.md", "\n| option | meaning |\n")
    documented = [name for row in table_in(text) for name in row.names]

    assert sorted(documented) == sorted(OF_ADDRESSES)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"batch_bytes": 0}, "batch_bytes"),
        ({"batchBytes": "0"}, "batchBytes"),
        ({"batchbytes": "0"}, "batchBytes"),
    ],
)
def test_an_error_names_an_option_as_the_caller_did(given: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=f"^{named} must be a number above 0, not "):
        APPLIED.read(given)


def test_a_similar_name_is_suggested_in_the_same_spelling() -> None:
    with pytest.raises(OptionError, match=r"no option batch_byte\. Did you mean batch_bytes\?"):
        APPLIED.read({"batch_byte": 1})
    with pytest.raises(OptionError, match=r"no option batchByte\. Did you mean batchBytes\?"):
        APPLIED.read({"batchByte": 1})
