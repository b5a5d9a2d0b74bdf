"""What a live capture shows of itself: sums, the adapter's reports, and metrics that Prometheus' own reader takes."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.real_brokers import free_ports
from trailgate.errors import OptionError, WriteError
from trailgate.jobs.metrics import MetricsOutput
from trailgate.jobs.metrics import metrics_output as metrics_output_of
from trailgate.live.jobs.feed import ConnectionState
from trailgate.live.jobs.metrics import (
    OUTPUT,
    RECORDS,
    SUMMED,
    TIME,
    CaptureStatistics,
    Reporter,
    ReportOptions,
    format_metrics,
    read_reports,
)
from trailgate.live.jobs.run import BatchReport

parser = pytest.importorskip("prometheus_client.parser")


def batch(**values: Any) -> BatchReport:
    known: dict[str, Any] = {
        "messages": 10,
        "operations": 9,
        "transactions": 3,
        "repeated": 2,
        "duplicates": 1,
        "quarantined": 1,
        "skipped": 5,
        "lag_messages": 4,
        "lag_seconds": 0.25,
        "trail_file": 2,
        "trail_offset": 5000,
        "number": 10,
        "counts": {"MY.ORDERS": {"I": 7, "U": 2}},
    }
    return BatchReport(**{**known, **values})


@given(st.lists(st.tuples(*[st.integers(0, 1 << 40)] * len(SUMMED)), max_size=5))
def test_sums_are_those_of_all_batches(batches: list[tuple[int, ...]]) -> None:
    total = CaptureStatistics()
    for values in batches:
        total = total.with_batch(batch(**dict(zip(SUMMED, values, strict=True))))

    assert [getattr(total, name) for name in SUMMED] == [
        sum(values[at] for values in batches) for at in range(len(SUMMED))
    ]
    assert total.batches == len(batches)
    assert total.counts == (
        {"MY.ORDERS": {"I": 7 * len(batches), "U": 2 * len(batches)}} if batches else {}
    )


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({}, ReportOptions()),
        ({TIME: "30sec"}, ReportOptions(seconds=30)),
        ({TIME: "45min", OUTPUT: "log"}, ReportOptions(frozenset({"log"}), 2700)),
        ({TIME: "8 HR", RECORDS: "1000", OUTPUT: "Both"},
         ReportOptions(frozenset({"report", "log"}), 28800, 1000)),
    ],
)  # fmt: skip
def test_reports_are_as_the_properties_ask(
    properties: Mapping[str, str], options: ReportOptions
) -> None:
    assert read_reports(properties) == options


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (TIME, "30", "an interval such as 30sec, 45min or 8hr"),
        (TIME, "0sec", "an interval"),
        (TIME, "3days", "an interval"),
        (RECORDS, "0", "a number of messages"),
        (RECORDS, "many", "a number of messages"),
        (OUTPUT, "file", "one of report, log, both"),
    ],
)
def test_another_value_is_refused(name: str, value: str, expected: str) -> None:
    with pytest.raises(OptionError, match=expected) as raised:
        read_reports({name: value})

    assert raised.value.where.field == name
    assert value in raised.value.problem


def test_a_report_is_due_after_its_interval_also_where_nothing_comes() -> None:
    reporter = Reporter(ReportOptions(seconds=30), 100.0)
    total = CaptureStatistics().with_batch(batch())

    assert reporter.due(total, 129.9) is None
    first = reporter.due(total, 130.5)
    assert reporter.due(total, 160.4) is None
    second = reporter.due(total, 160.5)
    assert first is not None
    assert second is not None
    assert (first.interval.messages, first.seconds) == (10, 30.5)
    assert (second.interval.messages, second.total.messages, second.rate) == (0, 10, 0)


def test_a_report_is_due_after_so_many_messages() -> None:
    reporter, total, found = Reporter(ReportOptions(records=25), 0.0), CaptureStatistics(), []
    for second in range(1, 8):
        total = total.with_batch(batch())
        report = reporter.due(total, second)
        if report is not None:
            found.append((report.interval.messages, report.total.messages, report.rate))
            assert report.fields()["total"]["messages"] == report.total.messages
            assert f"{report.interval.messages} messages in 3.0 s (10.0/s)" in str(report)

    assert found == [(30, 30, 10.0), (30, 60, 10.0)]


def test_without_an_interval_or_a_number_there_is_no_report() -> None:
    assert Reporter(ReportOptions(), 0.0).due(CaptureStatistics().with_batch(batch()), 1e9) is None


def samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield what Prometheus' own client reads."""
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


@given(st.text(max_size=20), st.text(max_size=20), st.none() | st.floats(0, 1e9))
def test_metrics_are_what_prometheus_reads(trail: str, table: str, age: float | None) -> None:
    total = CaptureStatistics().with_batch(batch(counts={table: {"I": 7}}, lag_seconds=age))
    total = total.with_batch(batch(counts={}, lag_seconds=age))
    found = list(samples(format_metrics(total, trail)))

    values = {name: value for name, _, value in found}
    assert all(labels["trail"] == trail for _, labels, _ in found)
    assert [(labels["table"], labels["kind"]) for _, labels, _ in found if "table" in labels] == [
        (table, "I")
    ]
    assert {name: values[name] for name in sorted(values) if name.endswith("_total")} == {
        "trailgate_batches_total": 2,
        "trailgate_duplicates_total": 2,
        "trailgate_messages_total": 20,
        "trailgate_operations_total": 7,
        "trailgate_quarantined_total": 2,
        "trailgate_reconnections_total": 0,
        "trailgate_repeated_total": 4,
        "trailgate_skipped_total": 10,
        "trailgate_transactions_total": 6,
    }
    assert values.get("trailgate_lag_seconds") == age
    assert (values["trailgate_lag_messages"], values["trailgate_trail_offset_bytes"]) == (4, 5000)


def metrics_output(
    target: str, trail: str
) -> AbstractContextManager[MetricsOutput[CaptureStatistics]]:
    """Return where the metrics of a capture go."""
    return metrics_output_of(target, partial(format_metrics, trail=trail), CaptureStatistics())


def asked(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=120) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def test_a_port_gives_the_metrics_of_the_moment_and_nothing_else() -> None:
    (port,) = free_ports(1)
    with metrics_output(str(port), "dirdat/ot") as output:
        assert "trailgate_messages_total" in asked(port)
        total = CaptureStatistics().with_batch(batch())
        output.show(total)
        assert asked(port, "/metrics?x=1") == format_metrics(total, "dirdat/ot")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            asked(port, "/etc/passwd")
        with pytest.raises(OptionError, match="cannot be served"), metrics_output(f":{port}", "o"):
            pass
    with pytest.raises(urllib.error.URLError):
        asked(port)


def test_a_file_is_whole_at_any_moment_and_has_the_last_metrics(tmp_path: Path) -> None:
    path, total = tmp_path / "ot.prom", CaptureStatistics()
    with metrics_output(str(path), "ot") as output:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            total = total.with_batch(batch())
            output.show(total)
            assert path.read_text().endswith("\n")
            assert list(samples(path.read_text()))
    assert path.read_text() == format_metrics(total, "ot")
    assert [one.name for one in tmp_path.iterdir()] == ["ot.prom"]


@pytest.mark.parametrize("target", ["", "metrics", "metrics.txt", "host:port", "1.5", "70000"])
def test_another_target_is_refused(target: str) -> None:
    with pytest.raises(OptionError, match=r"metrics cannot"), metrics_output(target, "ot"):
        pass


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    target = tmp_path / "none/ot.prom"
    with pytest.raises(WriteError, match="No such file"), metrics_output(str(target), "ot"):
        pass


def test_a_report_is_plain_values() -> None:
    reporter = Reporter(ReportOptions(records=1), 0.0)
    report = reporter.due(CaptureStatistics().with_batch(batch()), 2.0)
    assert report is not None

    assert json.loads(json.dumps(report.fields()))["lag_messages"] == 4


def test_what_the_connection_is_shows_while_nothing_comes() -> None:
    begun = CaptureStatistics()
    made = begun.with_link(ConnectionState(is_connected=True, made=1)).with_batch(
        batch(), 1700000000.25
    )
    lost = made.with_link(ConnectionState(is_connected=False, made=1))
    again = lost.with_link(ConnectionState(is_connected=True, made=2))

    shown = [values(one) for one in (begun, made, lost, again)]
    assert [one["trailgate_connected"] for one in shown] == [0, 1, 0, 1]
    assert [one["trailgate_reconnections_total"] for one in shown] == [0, 0, 0, 1]
    assert [one.get("trailgate_last_message_timestamp_seconds") for one in shown] == [
        None, 1700000000.25, 1700000000.25, 1700000000.25,
    ]  # fmt: skip
    assert again.with_link(ConnectionState(is_connected=True, made=2)) is again


def values(statistics: CaptureStatistics) -> dict[str, float]:
    """Return the metrics that have one value, as Prometheus' reader takes them."""
    families = parser.text_string_to_metric_families(format_metrics(statistics, "ot"))
    return {one.name: one.value for family in families for one in family.samples}
