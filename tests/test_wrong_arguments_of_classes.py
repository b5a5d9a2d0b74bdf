"""Wrong arguments of the constructors and methods of every public class: each is an error of ours or a TypeError.

What a constructor accepts is used as well, in the way in which a program uses it: it must not fail there in another way.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest

import trailgate
from capture_place import Place, row
from sample_trail import DEFINITIONS, Op, changes, write_trail
from test_wrong_arguments import WRONG
from trailgate import (
    AppendOptions,
    Capture,
    Column,
    Definitions,
    Problem,
    Table,
    TrailAppender,
    TrailgateError,
    Where,
)

CLASSES: Final[Mapping[str, Any]] = {
    name: one for name in trailgate.__all__ if inspect.isclass(one := getattr(trailgate, name))
}
ERRORS: Final = {name for name, one in CLASSES.items() if issubclass(one, TrailgateError)}
VALUES: Final = {name for name, one in CLASSES.items() if issubclass(one, Enum)}
# A disk is Trailgate's own. What each record calls does not check types, and only Trailgate itself
# raises the error of an extra.
NOT_TRIED: Final = {
    "disk",
    *(("ByteOrder", name) for name in ("words", "pair", "number", "raw")),
    ("MissingDependencyError", "of_extra"),
}


def append(folder: Path, definitions: Any = DEFINITIONS, options: Any = None) -> None:
    """Append an operation to a new trail."""
    for path in folder.glob("live*"):
        path.unlink()
    with TrailAppender(folder / "live", definitions, options or AppendOptions()) as made:
        made.append(changes([[Op("I", 1)]]))
        made.commit("1")


def captured(folder: Path, capture: Capture) -> None:
    """Parse a message."""
    capture.check()
    capture.parse(trailgate.messages_from([row(1)]))


def with_rules(folder: Path, rules: Any) -> None:
    """Parse a message by rules."""
    known = trailgate.load_capture(folder / "p.properties")
    captured(folder, Capture(known.options, known.definitions, rules))


# How a program uses what it has made of a class.
USES: Final[Mapping[str, Callable[[Path, Any], object]]] = {
    "AppendOptions": lambda folder, made: append(folder, options=made),
    "Capture": captured,
    "CaptureRules": with_rules,
    "Column": lambda folder, made: append(
        folder, Definitions((*DEFINITIONS, Table("S.T", (made,))))
    ),
    "Definitions": append,
    "Table": lambda folder, made: append(folder, Definitions((*DEFINITIONS, made))),
    "TrailAppender": lambda _, made: made.close(),
    "TrailFormat": lambda folder, made: append(folder, options=AppendOptions(trail_format=made)),
}


def unused(_: Path, made: Any) -> None:
    """Only make it: Trailgate itself makes and uses what is left."""
    del made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with messages, their properties and a trail."""
    monkeypatch.chdir(tmp_path)
    # Notices quote half of a surrogate pair, which pytest's workers cannot send.
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    Place(tmp_path).write(row(1))
    write_trail(tmp_path / "ot", [[[Op("I", 1)]]])
    return tmp_path


def made_of(name: str, folder: Path) -> Any:
    """Return one of a class, as a program has it."""
    capture = trailgate.load_capture(folder / "p.properties")
    messages = trailgate.messages_from([row(1), row(2)])
    if name in ERRORS:
        return CLASSES[name]("a problem")
    if name in VALUES:
        return next(iter(CLASSES[name]))
    makers: dict[str, Callable[[], Any]] = {
        "ApplyReport": lambda: trailgate.apply_trail(folder / "ot", f"duckdb:{folder}/a"),
        "Capture": lambda: capture,
        "CaptureSummary": lambda: trailgate.capture_files(
            folder / "messages", folder / "made", folder / "p.properties"
        ),
        "ChangeBatch": lambda: changes([[Op("I", 1), Op("U", 1)]]),
        "Column": lambda: Column("ID", 134, 8),
        "Definitions": lambda: DEFINITIONS,
        "MessageBatch": lambda: messages,
        "Parsed": lambda: capture.parse(messages),
        "Problem": lambda: Problem(0, TrailgateError("a problem")),
        "PublishSummary": lambda: trailgate.publish_trail(folder / "ot", folder / "published"),
        "RecordsReport": lambda: trailgate.RecordsReport(1, 1, 0, (), (), {}),
        "RedactSummary": lambda: trailgate.redact_trail(folder / "ot", folder / "redacted"),
        "Table": lambda: Table("S.T", (Column("ID", 134, 8, key=True),)),
        "TrailFiles": lambda: trailgate.find_trail(folder / "ot"),
        "TransactionState": lambda: capture.parse(messages).state,
        "VerifyReport": lambda: trailgate.verify_tables(folder / "ot", f"duckdb:{folder}/a"),
        "Where": lambda: Where("a source"),
    }
    if name == "VerifyReport":
        trailgate.apply_trail(folder / "ot", f"duckdb:{folder}/a")
    return makers.get(name, CLASSES[name])()


def faults_of(attempt: Callable[[Any], object]) -> list[str]:
    """Try each wrong value, and return those that end in another error."""
    faults = []
    for kind, made in WRONG.items():
        try:
            attempt(made())
        except (TrailgateError, TypeError):
            pass
        except Exception as error:  # noqa: BLE001  any other is a fault
            faults.append(f"{kind}: {type(error).__name__}: {error}")
    return faults


def good_arguments(name: str, folder: Path) -> dict[str, Any]:
    """Return arguments of a constructor, of which each one is replaced by wrong ones."""
    if name == "TrailAppender":
        return {"prefix": folder / "live", "definitions": DEFINITIONS}
    if name in ERRORS:
        return {"problem": "a problem"}
    one = made_of(name, folder)
    assert is_dataclass(one), name
    return {each.name: getattr(one, each.name) for each in fields(one) if each.init}


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_wrong_argument_of_a_constructor_is_an_error_of_ours(name: str, folder: Path) -> None:
    kind = CLASSES[name]
    if name in VALUES:
        # Python itself compares a value with each member, which numpy refuses to do.
        assert [one for one in faults_of(kind) if "array of numpy" not in one] == []
        return
    good, use = good_arguments(name, folder), USES.get(name, unused)
    use(folder, kind(**good))
    faults = []
    for parameter in inspect.signature(kind).parameters.keys() - NOT_TRIED:

        def attempt(value: Any, parameter: str = parameter) -> None:
            use(folder, kind(**{**good, parameter: value}))

        faults += [f"{parameter}={fault}" for fault in faults_of(attempt)]
    assert faults == [], "\n".join(faults)


# Arguments that are good, beside a wrong one.
BESIDE: Final[Mapping[str, Callable[[], Any]]] = {
    "batch": lambda: changes([[Op("I", 1)]]),
    "begin": lambda: 0,
    "csn": lambda: "1",
    "end": lambda: 1,
    "first": lambda: 0,
    "last": lambda: 0,
    "messages": lambda: trailgate.messages_from([row(1)]),
    "problem": lambda: "a problem",
}


def calls() -> list[tuple[str, str]]:
    """Return each public method that has parameters, as its class and its name; an error's methods once."""
    found = []
    for name, kind in CLASSES.items():
        for method, member in vars(kind).items():
            is_method = isinstance(member, classmethod | staticmethod) or inspect.isfunction(member)
            if is_method and not method.startswith("_") and (name, method) not in NOT_TRIED:
                found.append((name, method))
    return found


@pytest.mark.parametrize(("name", "method"), calls())
def test_a_wrong_argument_of_a_method_is_an_error_of_ours(
    name: str, method: str, folder: Path
) -> None:
    if name == "TrailAppender":
        own: Any = TrailAppender(folder / "live", DEFINITIONS)
    else:
        own = made_of(name, folder)
    parameters = inspect.signature(getattr(own, method)).parameters.values()
    names = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    faults = []
    for parameter in names:
        beside = {one: BESIDE[one]() for one in names if one != parameter and one in BESIDE}

        def attempt(value: Any, parameter: str = parameter, beside: Any = beside) -> None:
            found = getattr(own, method)(**{**beside, parameter: value})
            if inspect.isgenerator(found):
                list(found)

        faults += [f"{parameter}={fault}" for fault in faults_of(attempt)]
    if name == "TrailAppender":
        own.close()
    assert faults == [], "\n".join(faults)


def test_a_list_is_as_good_as_a_tuple_and_wrong_items_are_named(folder: Path) -> None:
    columns = [Column("ID", 134, 8, key=True)]
    table = Table("S.T", columns)  # type: ignore[arg-type]  # what this is about

    assert table == Table("S.T", tuple(columns))
    with pytest.raises(trailgate.OptionError, match=r"item 1 of tables must be Table, not 'S.T'"):
        Definitions((table, "S.T"))  # type: ignore[arg-type]  # as above
    with pytest.raises(
        trailgate.OptionError, match=r"trail_format must be TrailFormat, not '12.2'"
    ):
        AppendOptions(trail_format="12.2")  # type: ignore[arg-type]  # as above
    with pytest.raises(trailgate.OptionError, match=r"UpdateFormat has no value 'FULL'.*'full'"):
        trailgate.UpdateFormat("FULL")
    rows: Any = trailgate.read_trail(folder / "ot").read_next_batch()
    with (
        TrailAppender(folder / "live", DEFINITIONS) as appender,
        pytest.raises(trailgate.OptionError, match=r"batch must be ChangeBatch, not RecordBatch"),
    ):
        appender.append(rows)
