"""Commands with addresses of a store: what is read and written there, what is refused, and logins that are never printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capture_place import DEFINITIONS, PROPERTIES, row
from laws import one_of
from store_servers.bucket import Bucket
from trailgate.cli.main import run
from trailgate.errors import OptionError, mask_logins
from trailgate.storage.files.addresses import absolute, locate, make_address_speller, name_of


@pytest.fixture
def base(bucket: Bucket) -> str:
    """Give the address of a bucket with messages and properties, whose paths are relative; it holds the login."""
    bucket.put("dirdef/orders.def", DEFINITIONS)
    bucket.put("p.properties", PROPERTIES.format(sourcedefs="dirdef/orders.def", more=""))
    for number in range(3):
        bucket.put(f"in/day {number}/m#%{number}.txt", row(number))
    return bucket.server.base(bucket.name)


def at(base: str, key: str) -> str:
    return absolute(key, base)


def test_relative_paths_are_from_a_base_in_a_store(
    base: str, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["--base", base, "--from", "in/**", "--properties", "p.properties", "--to", "dirdat/ot"]

    assert run(["capture", *own]) == 0
    assert run(["capture", *own, "--json"]) == 0
    done = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (done["operations"], done["skipped_files"]) == (0, 3)
    assert done["target"].endswith(f"{bucket.name}/dirdat/ot")
    assert run(["show", at(base, "dirdat/ot"), "--format", "json"]) == 0
    assert capsys.readouterr().out.count("MY.ORDERS") == 3


COMMANDS = [
    ["show", "{trail}"],
    ["show", "{trail}", "--records", "all"],
    ["show", "{trail}", "--table", "MY.ORDERS", "--to", "{bucket}out/rows.parquet"],
    ["show", "{trail}", "--to", "{bucket}out/rows.csv"],
    ["check", "{trail}"],
    ["check", "{trail}", "--json"],
    ["analyze", "{trail}"],
    ["publish", "{trail}", "--to", "{bucket}published"],
    ["publish", "{trail}", "--to", "{bucket}published", "--json"],
    ["records", "{data}", "--copybook", "{copybook}"],
    ["records", "{data}", "--copybook", "{copybook}", "--to", "{bucket}parquet"],
    ["copybook", "{copybook}"],
    # What is wrong, and refused:
    ["show", "{missing}"],
    ["capture", "--from", "{missing}", "--properties", "{properties}", "--to", "{bucket}dirdat/x"],
    ["capture", "--from", "{data}", "--properties", "{missing}", "--to", "{bucket}dirdat/x"],
    ["capture", "--from", "{bad}", "--properties", "{properties}", "--to", "{bucket}dirdat/x"],
    ["check", "{trail}", "--salvage", "{bucket}dirdat/x"],
    [
        "capture",
        "--from",
        "stomp://u:SECRET@h/q",
        "--properties",
        "{properties}",
        "--to",
        "{trail}",
    ],
    ["show", "{trail}", "--to", "{bucket}out/rows.parquet"],
    ["show", "s3://AK:SECRET/x@bucket/y"],
    ["show", "s3://AK:SECRET@bucket/y?unknown=1"],
    ["records", "{data}", "--copybook", "{missing}"],
]


def test_no_command_prints_or_writes_a_login(
    base: str, bucket: Bucket, capfd: pytest.CaptureFixture[str]
) -> None:
    bucket.put("bad/1", "bad\n")
    bucket.put("data", "0001".encode("cp037"))
    bucket.put("r.cpy", "01 R.\n   COPY PART.\n")
    bucket.put("PART.CPY", "   05 ID PIC 9(4).\n")
    names = {"trail": "dirdat/ot", "copybook": "r.cpy", "bad": "bad", "properties": "q.properties"}
    bucket.put("q.properties", PROPERTIES.format(sourcedefs=at(base, "dirdef/orders.def"), more=""))
    places = {name: at(base, key) for name, key in names.items()}
    places |= {"missing": at(base, "missing"), "data": at(base, "data")}
    own = ["--properties", places["properties"], "--on-error", "quarantine"]
    source = ["--from", at(base, "in/**"), "--from", places["bad"]]
    assert run(["capture", *source, *own, "--to", places["trail"]]) == 0
    failed = 0
    for command in COMMANDS:
        words = []
        for word in command:
            key = word.removeprefix("{bucket}")
            words.append(at(base, key) if key != word else word.format(**places))
        failed += run(words) != 0
    printed = capfd.readouterr()

    assert failed == 10, printed.err
    assert "SECRET" not in printed.out + printed.err
    for key, data in bucket.contents().items():
        assert b"SECRET" not in data or key == "q.properties", key
    assert bucket.keys("dirdat/x") == []
    assert {"out/rows.parquet", "out/rows.csv", "parquet/_SUCCESS"} <= set(bucket.keys())
    assert bucket.keys("published/messages") == ["published/messages-000000001.jsonl"]
    assert bucket.uploads() == []


def test_stores_that_are_not_written_to_are_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.properties").write_text(
        PROPERTIES.format(sourcedefs=tmp_path / "orders.def", more="")
    )
    (tmp_path / "orders.def").write_text(DEFINITIONS)
    (tmp_path / "m").write_text(row(1))
    own = ["--properties", str(tmp_path / "p.properties"), "--from", str(tmp_path / "m")]

    assert run(["capture", *own, "--to", "ftp://host/dirdat/ot"]) == 2

    error = capsys.readouterr().err
    assert "a trail is not written to ftp:// addresses" in error
    assert (
        "Local disks and s3://, abfs://, abfss://, gs://, gcs://, hdfs:// are written to" in error
    )


def test_addresses_are_spelled_as_they_were_asked_for() -> None:
    for asked, path, other, spelled in (
        ("s3://b/d?region=x", "b/d", "b/d/e f#", "s3://b/d/e%20f%23?region=x"),
        ("s3://k:s@b", "b", "b/x", "s3://k:s@b/x"),
        ("abfs://c@a.host/d", "c/d", "c/d/x", "abfs://c@a.host/d/x"),
        ("abfs://a@h:1/c/d?x=y", "c/d", "c/d/x", "abfs://a@h:1/c/d/x?x=y"),
        ("abfs://a@h:1/c", "c", "c/x", "abfs://a@h:1/c/x"),
        ("s3://b/b", "b/b", "b/b/x", "s3://b/b/x"),
        ("hdfs://h:1/d", "/d", "/d/x", "hdfs://h:1/d/x"),
        ("dirdat", "dirdat", "dirdat/x", "dirdat/x"),
    ):
        assert make_address_speller(asked, path)(other) == spelled
    assert name_of("s3://b/d/ot000000001?region=x") == "ot000000001"
    assert absolute("d/o t", "s3://b/x?region=y") == "s3://b/x/d/o%20t?region=y"


def test_an_address_that_cannot_be_used_is_named_without_its_login() -> None:
    with pytest.raises(OptionError) as caught:
        locate("s3://AKIA:SECRET/+@bucket/x y")

    assert "s3://***@bucket/x y" in str(caught.value)
    assert "SECRET" not in f"{caught.value} {caught.value!r} {caught.value.__cause__}"


def test_only_logins_are_masked() -> None:
    for text in ("s3://bucket/a:b@c", "user@host", "abfs://container@account/x", "http://h:80/x"):
        assert mask_logins(text) == text
    assert (
        mask_logins("at stomp://u:p@h/q and s3://K:a/b@c/d")
        == "at stomp://***@h/q and s3://***@c/d"
    )


@pytest.mark.parametrize("line", one_of([["show", "{}"], ["sql", "FROM '{}'"]], "no store"))
def test_a_store_that_is_not_reached_is_no_fault_of_the_output(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    address = "s3://KEY:SECRET@b/dirdat/ot?endpoint_override=127.0.0.1:9&scheme=http&region=x"

    assert run([word.format(address) for word in line]) == 3

    said = capsys.readouterr().err
    assert "NETWORK_CONNECTION" in said
    assert "output" not in said
    assert "SECRET" not in said
