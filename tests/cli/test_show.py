"""``trailgate show`` and the program around it."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sample_trail import NOTES, Op, write_trail
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.trail.format.file_header import decode_header

FILES = [
    [[Op("I", 1, "a,b")], [Op("U", 1, "new", "old"), Op("D", 1), Op("I", 3, None, table=NOTES)]],
    [[Op("I", 9, "[bold]x\x1b")]],
]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(write_trail(tmp_path / "ot", FILES))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["show", *arguments]) == 0
    return capsys.readouterr().out


def test_json_is_one_object_a_line_in_the_operations_columns(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in shown(capsys, prefix, "--format", "json").splitlines()]

    assert len(lines) == 5
    assert list(lines[0]) == OPERATIONS_SCHEMA.names
    assert lines[0]["op_ts"] == "2026-01-01T00:00:00.000000Z"
    assert lines[0]["after"] == {"ID": "1", "NAME": "a,b"}
    assert lines[3]["after"] == {"ID": "3", "TEXT": None}


def test_csv_holds_maps_as_json(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(csv.DictReader(io.StringIO(shown(capsys, prefix, "--format", "csv"))))

    assert list(lines[0]) == OPERATIONS_SCHEMA.names
    assert json.loads(lines[1]["before"]) == {"ID": "1", "NAME": "old"}


def test_a_table_is_for_the_eye(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, prefix)

    assert "NAME=old -> new" in text
    assert "TEXT=NULL" in text
    assert "[bold]x\\x1b" in text
    assert "\x1b" not in text
    assert "more" not in text


def test_a_table_that_ends_early_is_reported(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", prefix, "--limit", "2"]) == 0
    printed = capsys.readouterr()
    assert "more after these 2" in printed.err
    assert "more after" not in printed.out


def test_table_limit_and_after_choose(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    json_ = ("--format", "json")
    first, second, *rest = shown(capsys, prefix, *json_).splitlines()

    assert shown(capsys, prefix, *json_, "--limit", "2").splitlines() == [first, second]
    after = json.loads(second)["position"]
    assert shown(capsys, prefix, *json_, "--after", after).splitlines() == rest
    notes = shown(capsys, prefix, "--table", "my.notes").splitlines()
    assert len(notes) == 2
    assert "MY.NOTES" in notes[1]


def test_tables_positions_and_csns_choose(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    json_ = ("--format", "json")
    lines = shown(capsys, prefix, *json_).splitlines()
    positions = [json.loads(line)["position"] for line in lines]

    assert shown(capsys, prefix, *json_, "--tables", "my.N*,X.?").splitlines() == [lines[3]]
    assert shown(capsys, prefix, *json_, "--from-position", positions[2]).splitlines() == lines[2:]
    assert shown(capsys, prefix, *json_, "--to-position", positions[2]).splitlines() == lines[:3]
    assert shown(capsys, prefix, *json_, "--from-csn", "1001").splitlines() == lines[1:4]
    assert shown(capsys, prefix, *json_, "--to-csn", "01000").splitlines() == [lines[0], lines[4]]


def test_positions_are_short_and_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = str(write_trail(tmp_path / "one", FILES[:1]))
    first, second, *_ = shown(capsys, prefix).splitlines()[1:]
    position = first.split()[0]
    assert position.startswith("0:")

    offset = position.removeprefix("0:")
    for after in (position, offset, hex(int(offset)), f"0{offset}"):
        assert shown(capsys, prefix, "--after", after).splitlines()[1] == second
    to = str(tmp_path / "published")
    operations = shown(capsys, prefix, "--json").splitlines()
    given = ("--after", offset, "--to", to, "--format", "json", "--json")
    assert run(["publish", prefix, *given]) == 0
    assert json.loads(capsys.readouterr().out)["operations"] == len(operations) - 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--tables", "NOPE.*,X.?"],
            "no operations of NOPE.*, X.?; the trail defines MY.NOTES, MY.ORDERS",
        ),
        (["--records", "all", "--tables", "NOPE.*"], "no records of NOPE.*"),
        (["--from-csn", "9999"], "no such operations"),
        (["--after", "9:1"], "no such operations"),
    ],
)
def test_what_is_not_found_is_named(
    prefix: str, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["show", prefix, *arguments]) == 0
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("records", ["operations", "all"])
def test_nothing_is_cut_off_at_any_width(
    prefix: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    records: str,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["show", prefix, "--records", records]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    words = "".join("".join(lines).split())
    if records == "operations":
        assert all(len(line) <= width for line in lines)
        assert "NAME=old->new" in words
    assert "MY.ORDERS" in words
    assert "Not shown" in printed.err  # what the table has no room for is announced


def test_wide_is_one_line_an_operation_with_everything(
    prefix: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = shown(capsys, prefix, "--wide").splitlines()

    assert len(lines) == 6
    assert "csn=1000" in lines[1]
    records = shown(capsys, prefix, "--records", "all", "--wide").splitlines()
    assert "syskey_length=0" in records[1]
    assert "..." not in records[1]


def test_a_terminal_has_colours_and_a_pager(prefix: str, tmp_path: Path) -> None:
    """A pager of our own keeps what it is given."""
    page = tmp_path / "page"
    code, said = in_terminal(["show", prefix], PAGER=f"sh -c 'cat > {page}'")

    assert (code, said) == (0, "")
    assert "\x1b[31mold\x1b[0m -> \x1b[32mnew\x1b[0m" in page.read_text()
    code, said = in_terminal(["show", prefix], PAGER="true", NO_COLOR="1")  # left at once
    assert (code, said) == (0, "")
    code, said = in_terminal(["show", prefix], PAGER="cat", NO_COLOR="1")
    assert code == 0
    assert "NAME=old -> new" in said


def in_terminal(arguments: list[str], **environment: str) -> tuple[int, str]:
    """Return the exit code of a command in a terminal, and what the terminal shows."""
    pid, terminal = pty.fork()
    if not pid:  # pragma: no cover  the child
        program = "from trailgate.cli.main import main; main()"
        os.execve(sys.executable, [sys.executable, "-c", program, *arguments], _env() | environment)
    said = b""
    with os.fdopen(terminal, "rb", buffering=0) as stream:
        while True:
            try:
                part = stream.read(4096)
            except OSError:  # the terminal is closed
                break
            if not part:
                break
            said += part
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_records_are_shown_with_their_headers(
    prefix: str, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    text = shown(capsys, prefix, "--records", "all", "--format", form)

    assert "FieldComp" in text
    assert "MY.NOTES" in text
    assert "1001" in text
    if form == "json":
        first = json.loads(text.splitlines()[0])
        assert first["audit_pos"] == 0
        assert first["data"].startswith("0000000a")


def test_one_table_has_its_columns_in_their_types(
    prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON, CSV and Parquet; two tables and patterns have the general shape."""
    lines = shown(capsys, prefix, "--table", "my.orders", "--format", "json").splitlines()
    first, second, third, _ = map(json.loads, lines)
    assert (first["ID"], first["NAME"], first["_op_type"]) == (1, "a,b", "I")
    assert (second["NAME"], third["_missing"]) == ("new", ["NAME"])

    text = shown(capsys, prefix, "--table", "my.orders", "--format", "csv", "--limit", "1")
    assert text.splitlines()[0].startswith("ID,NAME,_op_type,_op_ts,")
    assert text.splitlines()[1].startswith('1,"a,b",I,2026-01-01T00:00:00.000000Z,')

    target = tmp_path / "new" / "orders.parquet"
    assert (
        shown(capsys, prefix, "--table", "my.orders", "--to", str(target)) == f"4 rows: {target}\n"
    )
    table = pq.read_table(target)
    assert table.schema.field("ID").type == pa.int64()
    assert table["ID"].to_pylist() == [1, 1, 1, 9]
    general = shown(
        capsys, prefix, "--table", "my.orders", "--table", "my.notes", "--format", "json"
    )
    assert list(json.loads(general.splitlines()[0])) == OPERATIONS_SCHEMA.names


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_go_to_a_new_file(
    prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    target = tmp_path / f"rows.{ending}"
    assert shown(capsys, prefix, "--to", str(target), "--limit", "4") == f"4 rows: {target}\n"
    if ending == "parquet":
        assert pq.read_table(target).schema.equals(OPERATIONS_SCHEMA)
    else:
        form = "json" if ending == "jsonl" else ending
        assert target.read_text() == shown(capsys, prefix, "--format", form, "--limit", "4")
    assert run(["show", prefix, "--to", str(target)]) == 1
    assert "the file exists already" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir() if "rows" in path.name) == [target.name]


def test_a_file_of_another_kind_is_refused(
    prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", prefix, "--to", str(tmp_path / "rows.xlsx")]) == 2
    assert "none of the endings .parquet, .csv" in capsys.readouterr().err
    assert run(["show", prefix, "--to", str(tmp_path / "rows.csv"), "--format", "json"]) == 2
    damaged = Path(f"{prefix}000000001")
    damaged.write_bytes(damaged.read_bytes().replace(b"[bold]", b"\xff[bold"))
    assert run(["show", prefix, "--to", str(tmp_path / "rows.csv")]) == 1
    assert not [path for path in tmp_path.iterdir() if "rows" in path.name]


def test_a_damaged_trail_names_the_command_that_saves_the_rest(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = Path(f"{prefix}000000001")
    damaged.write_bytes(damaged.read_bytes().replace(b"[bold]", b"\xff[bold"))
    assert run(["show", prefix]) == 1
    assert (
        f"trailgate check {prefix} lists the damage, and --salvage OUT saves"
        in capsys.readouterr().err
    )


def test_null_and_empty_are_apart_in_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = str(write_trail(tmp_path / "ot", [[[Op("I", 1, ""), Op("I", 2, None)]]]))
    lines = shown(capsys, prefix, "--table", "my.orders", "--format", "csv").splitlines()
    assert lines[1].startswith('1,"",I')
    assert lines[2].startswith("2,,I")


@pytest.mark.parametrize(
    ("shell", "line", "offered"),
    [
        ("bash", "trailgate c", ["capture", "check", "copybook"]),
        ("bash", "trailgate show --fo", ["--format"]),
        ("bash", "trailgate show --format ", ["table", "json", "csv"]),
    ],
)
def test_a_shell_completes_commands_and_options(shell: str, line: str, offered: list[str]) -> None:
    asked = {
        "_TRAILGATE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    program = "from trailgate.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=_env() | asked,
    )
    assert done.stdout.split() == offered


def test_definitions_can_be_elsewhere(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    moved = Path(f"{prefix}.def").rename(f"{prefix}.moved")

    assert (
        len(shown(capsys, prefix, "--format", "json", "--definitions", str(moved)).split("\n")) == 6
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "nowhere/ot"], 1, "error: no trail files here"),
        (["show", "PREFIX", "--table", "MY.ORDER"], 1, "MY.ORDERS"),
        (["show", "PREFIX", "--after", "x:7"], 2, "error: 'x:7' is not a position"),
        (["show", "PREFIX", "--after", "7"], 2, "Name the file too: 0:7"),
        (["show", "PREFIX", "--format", "xml"], 2, "xml"),
        (["show", "PREFIX", "--tables", "A.B,,"], 2, "not a list of tables"),
        (["show", "PREFIX", "--charset", "klingon"], 2, "klingon"),
        (["show"], 2, "trail"),
        (["shew"], 2, "shew"),
    ],
)
def test_errors_are_short_and_have_their_codes(
    prefix: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run([prefix if word == "PREFIX" else word for word in arguments]) == code
    text = capsys.readouterr().err
    assert said in text
    assert "Traceback" not in text


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILGATE_DEBUG", "1")

    with pytest.raises(Exception, match="no trail files here"):
        run(["show", "nowhere/ot"])


def test_version_and_help_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("trailgate")
    assert "show" in text


def test_a_reader_that_leaves_early_hears_no_complaint(prefix: str) -> None:
    write_trail(Path(prefix), [[[Op("I", i) for i in range(20_000)]], *FILES[1:]])
    assert run(["show", prefix, "--format", "json", "--limit", "1"]) == 0  # compiles, once
    code = "from trailgate.cli.main import main; main()"
    command = [sys.executable, "-c", code, "show", prefix, "--format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_env()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()

        assert process.stderr.read() == b""


def test_importing_loads_no_optional_package() -> None:
    code = (
        "import sys, trailgate, trailgate.storage.reading.trails, trailgate.cli.main\n"
        "print([name for name in ('pyspark', 'typer', 'rich', 'lxml') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_env()
    )

    assert done.stdout.strip() == "[]"


def test_show_as_json_loads_neither_spark_nor_rich(prefix: str) -> None:
    code = (
        "import sys\n"
        "from trailgate.cli.main import run\n"
        f"code = run(['show', {prefix!r}, '--format', 'json', '--limit', '0'])\n"
        "print(code, [name for name in ('pyspark', 'rich.table', 'lxml') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_env()
    )

    assert done.stdout.strip() == "0 []"


def _env() -> dict[str, str]:
    source = str(Path(__file__).parents[2] / "src")
    return {**os.environ, "PYTHONPATH": source}


def flip(raw: bytes, at: int) -> bytes:
    """Return bytes of which one is damaged."""
    return raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :]


# What damages the bytes of a trail file, given the length of its header, which contains the path of the file.
DAMAGES: dict[str, Callable[[bytes, int], bytes]] = {
    "cut": lambda raw, _: raw[:-50],
    "cut inside the header": lambda raw, _: raw[:100],
    "empty": lambda *_: b"",
    "longer": lambda raw, _: raw + raw[-50:],
    "a byte of the header": lambda raw, _: flip(raw, 10),
    "a byte of the header's end": lambda raw, start: flip(raw, start - 4),
    "a lost byte": lambda raw, _: raw[: len(raw) // 2] + raw[len(raw) // 2 + 1 :],
    "zeros": lambda raw, start: raw[:start] + bytes(80) + raw[start + 80 :],
}


@pytest.mark.parametrize("options", [[], ["--records", "all"], ["--format", "json"]])
@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_names_the_command_that_lists_it(
    damage: str,
    options: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    unpack(tmp_path)
    words = ["--properties", f"{tmp_path}/dirprm/shop.properties", "--base", str(tmp_path)]
    assert run(["capture", *words, "--from", "messages", "--to", "ot"]) == 0
    (tmp_path / "ot.manifest.json").unlink()
    path = tmp_path / "ot000000000"
    raw = path.read_bytes()
    path.write_bytes(DAMAGES[damage](raw, decode_header(raw)[1]))
    capfd.readouterr()

    code = run(["show", str(tmp_path / "ot"), *options])

    told = capfd.readouterr().err + caplog.text
    assert "trailgate check" in told, (code, told)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--from-csn", "9", "--to-csn", "3"], "the range is empty: the CSN 9 is above 3"),
        (["--from-csn", "abc"], "the range's first CSN is 'abc', but"),
        (["--to-csn", "abc"], "the range's last CSN is 'abc', but"),
        (["--from-position", "1:9", "--to-position", "0:3"], "the range is empty: the position"),
        (["--after", "1:9", "--to-position", "0:3"], "the range is empty: the position"),
        (["--records", "all", "--from-csn", "1"], "a range of CSNs applies to operations"),
        (["--records", "all", "--open-transactions", "show"], "open transactions applies to"),
    ],
)
def test_errors_of_options_have_no_spelling_of_spark(
    prefix: str, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    assert run(["show", prefix, *given]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert not re.search("[a-z](Csn|Position|Transactions)", error)
