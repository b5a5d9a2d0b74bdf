"""The command capture, as it is typed."""

from __future__ import annotations

import gzip
import json
from importlib import resources
from pathlib import Path

import pytest

from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.trail.format.file_header import decode_header

GIVEN = ["capture", "--properties", "dirprm/shop.properties", "--from", "messages"]


@pytest.fixture(autouse=True)
def _in_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")


def test_a_capture_is_summed_up_by_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GIVEN, "--to", "dirdat/ot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["table", "inserts", "updates", "deletes", "all"]
    assert lines[2].split() == ["GG.SHOP_ORDERS", "3", "2", "1", "6"]
    assert lines[-2].startswith(
        "definitions: dirdat/ot.def; the trail's files contain none, so move this"
    )
    assert lines[-1] == "trail: ot000000000 of dirdat/ot"


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GIVEN, "--to", "dirdat/ot", "--json", "--seq-digits", "6"]) == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert (summary["operations"], summary["files"], err) == (13, ["ot000000"], "")


def test_a_trail_of_another_format_is_read_alike(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GIVEN, "--to", "dirdat/ot"]) == 0
    assert "definitions: dirdat/ot.def" in capsys.readouterr().out
    newer = ["--format-release", "12.2", "--byte-order", "little", "--update-format", "full"]
    assert run([*GIVEN, "--to", "dirdat/lt", *newer]) == 0
    assert "definitions" not in capsys.readouterr().out

    shown = []
    for trail in ("dirdat/ot", "dirdat/lt"):
        assert run(["show", trail, "--format", "json"]) == 0
        lines = capsys.readouterr().out.splitlines()
        shown.append([{**json.loads(line), "position": ""} for line in lines])

    assert shown[0] == shown[1]
    assert len(shown[0]) == 13
    header = decode_header(Path("dirdat/lt000000000").read_bytes())[0]
    assert (header.trail.compatibility, header.order.label) == (5, "little")


@pytest.mark.parametrize(
    ("good", "bad", "configured"),
    [
        ("2026-01-05 09:12:28", "2026-13-05 09:12:28", "delim.dateformat in line 21"),
        ("2026-01-05 09:12:30", "05.01.2026", "delim.timestamp.format in line 13"),
    ],
)
def test_a_bad_date_is_shown_as_text_with_its_form_and_where_that_is_configured(
    capsys: pytest.CaptureFixture[str], good: str, bad: str, configured: str
) -> None:
    message = Path("messages/0002-orders.txt")
    message.write_text(message.read_text().replace(good, bad))
    assert run([*GIVEN, "--to", "dirdat/ot"]) == 1
    error = capsys.readouterr().err
    assert f"text '{bad}')" in error
    assert "not a date in the form YYYY-MM-DD HH:MI:SS" in error
    assert f"The form is that of {configured} of dirprm/shop.properties" in error


def bad_messages() -> None:
    """Add three bad messages, two of one reason, to the six good ones."""
    for name in ("0007", "0008"):
        Path(f"messages/{name}.txt").write_text("I,NO.TABLE,2026-01-01 00:00:00,T-9\n")
    orders = Path("messages/0002-orders.txt").read_text()
    Path("messages/0009.txt").write_text(orders.replace("09:12:28", "29:12:28"))


def test_a_dry_run_lists_every_bad_message_and_ranks_the_reasons(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad_messages()
    assert run([*GIVEN, "--to", "dirdat/ot", "--dry-run"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[:3]] == [f"messages/000{i}.txt" for i in (7, 8, 9)]
    assert "table NO.TABLE, field tablename: 'NO.TABLE': " in lines[0]
    assert "field ORDERED_AT: '2026-01-05 29:12:28': not a date in the form" in lines[2]
    assert [line.split()[0] for line in lines[3:6]] == ["bad", "2", "1"]
    assert "9 messages, 6 transactions, 13 operations" in lines
    assert not Path("dirdat/ot000000000").exists()

    assert run([*GIVEN, "--to", "dirdat/ot", "--dry-run", "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert list(summary["reasons"].values()) == [2, 1]
    assert summary["problems"][2]["text"] == "2026-01-05 29:12:28"
    assert summary["problems"][2]["field"] == "ORDERED_AT"
    assert run([*GIVEN, "--to", "dirdat/ot", "--dry-run", "--on-error", "quarantine"]) == 0


def test_a_transaction_is_counted_with_its_bad_message(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("dirprm/shop.properties").read_text()
    Path("dirprm/shop.properties").write_text(
        text.replace("tablename,ts,tx", "tablename,ts,tx,ind") + "delim.txind=ind\n"
    )
    for path in Path("messages").iterdir():
        path.unlink()
    good = "I,GG.JMSCAP_TCUSTMER,2026-01-05 09:00:00,T-1,{},NULL,A,NULL,B,NULL,C,NULL,D\n"
    for number, indicator in enumerate("BM"):
        Path(f"messages/{number}.txt").write_text(good.format(indicator))
    Path("messages/2.txt").write_text(good.format("E").replace("2026-01-05", "2026-13-05"))
    assert run([*GIVEN, "--to", "dirdat/ot", "--dry-run"]) == 1
    assert "2  another message of its transaction is bad" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--max-bad", "3"], "--max-bad has no effect with --on-error stop"),
        (["--publish-format", "json"], "--publish-format needs --publish"),
    ],
)
def test_an_option_without_effect_is_refused(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*GIVEN, "--to", "dirdat/ot", *options]) == 2
    assert problem in capsys.readouterr().err
    assert not Path("dirdat/ot000000000").exists()


def test_more_bad_messages_than_allowed_publish_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad_messages()
    given = [*GIVEN, "--to", "dirdat/ot", "--on-error", "quarantine"]
    assert run([*given, "--max-bad", "2"]) == 1
    error = capsys.readouterr().err
    assert (
        "3 messages are bad, but --max-bad (max_bad) allows at most 2: 2 x table NO.TABLE is not"
        in error
    )
    assert not Path("dirdat/ot000000000").exists()
    assert run([*given, "--max-bad", "2", "--dry-run"]) == 1
    assert run([*given, "--max-bad", "3", "--dry-run"]) == 0
    capsys.readouterr()
    assert run([*given, "--max-bad", "3"]) == 0
    assert "2  table NO.TABLE is not in the definitions" in capsys.readouterr().out


def test_a_trail_without_most_of_the_messages_ends_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in sorted(Path("messages").iterdir())[:4]:
        path.write_text("I,NO.TABLE,2026-01-01 00:00:00,T-9\n")
    assert run([*GIVEN, "--to", "dirdat/ot", "--on-error", "quarantine"]) == 1
    assert (
        "quarantined: 4 of 6 messages, which is most of them: dirdat/ot.quarantine.jsonl"
        in capsys.readouterr().out
    )
    assert Path("dirdat/ot000000000").exists()


def test_a_bad_message_stops_with_1_or_is_set_aside(capsys: pytest.CaptureFixture[str]) -> None:
    Path("messages/0007.txt").write_text("I,NO.TABLE,2026-01-01 00:00:00,T-9\n")
    assert run([*GIVEN, "--to", "dirdat/ot"]) == 1
    assert "messages/0007.txt" in capsys.readouterr().err
    assert run([*GIVEN, "--to", "dirdat/ot", "--on-error", "quarantine"]) == 0
    assert "quarantined: 1 message: dirdat/ot.quarantine.jsonl" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["capture", "--from", "messages", "--to", "dirdat/ot"],
        GIVEN,
        [*GIVEN, "--to", "dirdat/ot", "--max-size", "big"],
        [*GIVEN, "--to", "dirdat/ot", "--on-error", "ignore"],
        [*GIVEN, "--to", "dirdat/ot", "--format-release", "13.1"],
        [*GIVEN, "--to", "dirdat/ot", "--byte-order", "little"],
        [*GIVEN, "--to", "dirdat/ot", "--format-release", "12.2", "--update-format", "half"],
        ["capture", "--properties", "absent", "--from", "messages", "--to", "dirdat/ot"],
    ],
)
def test_wrong_use_is_2(arguments: list[str]) -> None:
    assert run(arguments) == 2


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GIVEN, "--to", "dirdat/ot", "--dry-run"]) == 0
    assert "nothing was written" in capsys.readouterr().out
    assert list(Path("dirdat").iterdir()) == []


def test_an_extract_parameter_file_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    Path("dirprm/shop.prm").write_text(
        "EXTRACT shop\nVAM libggjava_vam.so PARAMS dirprm/shop.properties\nEXTTRAIL dirdat/ot\n"
        "GETUPDATEBEFORES\nREPORTCOUNT EVERY 1 MINUTES\nTABLE GG.SHOP_*;\n"
    )
    assert run(["capture", "--extract", "dirprm/shop.prm", "--from", "messages"]) == 0
    out, err = capsys.readouterr()
    assert "note: line 5, REPORTCOUNT" in err
    assert "GG.JMSCAP_TCUSTMER" not in out
    assert run(["show", "dirdat/ot", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any(row["before"].get("PRICE") == "1249.50" for row in rows if row["op_type"] == "U")


SHOP = "EXTRACT shop\nVAM lib.so PARAMS dirprm/shop.properties\nEXTFILE dirdat/ot, FORMAT RELEASE 12.2\n"


def captured(*lines: str) -> int:
    Path("dirprm/shop.prm").write_text(SHOP + "\n".join(lines))
    return run(["capture", "--extract", "dirprm/shop.prm", "--from", "messages"])


def test_unsupported_parameters_stop_a_run_before_anything_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert captured("ENCRYPTTRAIL AES256", "COLMATCH PREFIX A_", "TABLE GG.*;") == 2

    error = capsys.readouterr().err
    assert "ENCRYPTTRAIL AES256 is not supported: the trail would not be encrypted" in error
    assert "(dirprm/shop.prm, line 4, field ENCRYPTTRAIL)" in error
    assert "1 more in this file is not supported" in error
    assert list(Path("dirdat").iterdir()) == []


def test_unsupported_parameters_are_ignored_and_listed_on_demand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("dirprm/shop.prm").write_text(SHOP + "ENCRYPTTRAIL AES256\nTABLE GG.*;")
    given = ["capture", "--extract", "dirprm/shop.prm", "--from", "messages", "--json"]

    assert run([*given, "--ignore-unsupported"]) == 0
    assert "ignored: line 4, ENCRYPTTRAIL AES256: the trail" in capsys.readouterr().err


def test_the_group_is_the_process_name_of_the_files() -> None:
    assert captured("TABLE GG.*;") == 0
    header, _ = decode_header(Path("dirdat/ot000000000").read_bytes())
    assert header.producer.name == "shop"


def test_a_filter_and_tokens_reach_the_trail_and_come_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = "TABLE GG.SHOP_ORDERS, FILTER (@GETENV ('GGHEADER', 'OPTYPE') = 'INSERT')"
    assert captured(f"{table}, TOKENS (TX_OWNER = 'ann', KIND = GGS_OP_TYPE);") == 0
    capsys.readouterr()

    assert run(["show", "dirdat/ot", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["op_type"], row["tx_owner"], row["tx_name"]) for row in rows] == [
        ("I", "ann", None)
    ] * 3
    assert all(row["tokens"]["KIND"] == "INSERT" for row in rows)


def test_an_expression_that_does_not_fit_has_a_caret(capsys: pytest.CaptureFixture[str]) -> None:
    assert captured("TABLE GG.SHOP_ORDERS,", "  FILTER (NOWHERE > 1);") == 2
    shown, caret = capsys.readouterr().err.splitlines()[-2:]
    assert caret.index("^") == shown.index("NOWHERE")


def test_the_sample_is_part_of_the_package() -> None:
    assert (resources.files("trailgate") / "samples/dirdef/shop.def").is_file()


def test_several_sources_and_captures_again_are_summed_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["capture", "--properties", "dirprm/shop.properties", "--to", "dirdat/ot", "--json"]
    first = sorted(str(path) for path in Path("messages").iterdir())[:2]
    assert run([*given, "--from", first[1], "--from", first[0]]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 2
    assert run([*given, "--from", "messages"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["skipped_files"], summary["messages"]) == (2, 4)
    assert run([*given[:-1], "--from", "messages/*"]) == 0
    assert "6 files skipped: captured before" in capsys.readouterr().out
    assert run([*given, "--from", "messages", "--again"]) == 0
    assert json.loads(capsys.readouterr().out)["operations"] == 13


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("5", "the body is a number, not text"),
        ("1.5", "the body is a number, not text"),
        ("true", "the body is true or false, not text"),
        ("{}", "the body is an object, not text"),
        ("[]", "the body is an array, not text"),
    ],
)
def test_a_body_of_another_type_is_named(
    body: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("lines.jsonl").write_text(f'{{"body": {body}}}\n')
    given = ["capture", "--properties", "dirprm/shop.properties", "--from", "lines.jsonl"]
    assert run([*given, "--to", "dirdat/ot"]) == 1
    assert problem in capsys.readouterr().err


def test_sql_over_a_damaged_trail_points_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GIVEN, "--to", "dirdat/ot"]) == 0
    file = Path("dirdat/ot000000000")
    file.write_bytes(file.read_bytes()[:-50])
    assert run(["sql", "FROM 'dirdat/ot'"]) == 1
    error = capsys.readouterr().err
    assert "but the manifest states" in error
    assert "trailgate check dirdat/ot lists the damage" in error
    assert "DuckDB knows no" not in error
    assert run(["sql", "FROM 'dirdat/zz'"]) == 1
    assert "DuckDB knows no table or file of this name either" in capsys.readouterr().err


def test_bad_messages_of_one_file_have_different_places(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = Path("messages/0001-customers.txt").read_bytes().split(b"\n")[0] + b"\n"
    bad = b"I,NO.TABLE,2026-01-01 00:00:00,T-9\n"
    Path("lines.txt").write_bytes(good + bad + bad)
    given = ["capture", "--properties", "dirprm/shop.properties", "--from", "lines.txt"]
    assert run([*given, "--message-per", "line", "--to", "dirdat/ot", "--dry-run"]) == 1
    places = [one for one in capsys.readouterr().out.splitlines() if one.startswith("lines.txt, ")]
    assert [one.partition(",")[2].split(",")[0] for one in places] == [
        f" message at byte {len(good)}",
        f" message at byte {len(good + bad)}",
    ]


@pytest.mark.parametrize("more", [[], ["--message-per", "line"], ["--dry-run"]])
def test_empty_files_of_messages_are_named(
    capfd: pytest.CaptureFixture[str], more: list[str]
) -> None:
    Path("messages/zz1.txt").write_bytes(b"")
    with gzip.open("messages/zz2.txt.gz", "wb"):
        pass

    assert run([*GIVEN, "--to", "dirdat/ot", *more]) == 0

    names = "messages/zz1.txt, messages/zz2.txt.gz"
    note = f"note: 2 files are empty (0 bytes): {names}: were they written completely?"
    assert note in capfd.readouterr().err.splitlines()


def test_an_empty_file_is_named_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.jsonl").write_bytes(b"")
    given = ["capture", "--properties", "dirprm/shop.properties", "--from", "one.jsonl"]

    assert run([*given, "--to", "dirdat/ot", "--json"]) == 0

    notes = json.loads(capsys.readouterr().out)["notes"]
    assert notes == ["one.jsonl is empty (0 bytes): was it written completely?"]
