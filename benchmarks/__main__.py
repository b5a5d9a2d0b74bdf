"""Run the benchmarks: ``python -m benchmarks [names] [--quick]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final

from benchmarks import report
from benchmarks.report import Figure, Target, figure_of

Benchmark = Callable[[bool], list[Figure]]
CODEC_TARGETS: Final = {
    ("trail to columns", "M records/s"): Target(4, of="figure"),
    ("12.2-like trail to columns", "M records/s"): Target(0.8),
    ("columns to trail", "M records/s"): Target(5, of="figure"),
}


def delimited(quick: bool) -> list[Figure]:
    from benchmarks.delimited import run  # noqa: PLC0415

    return run(quick=quick)


def trail_codec(quick: bool) -> list[Figure]:
    from benchmarks.trail_codec import run  # noqa: PLC0415

    del quick  # takes seconds
    return [figure_of(row, CODEC_TARGETS.get((row["name"], row["unit"]))) for row in run()]


def trail_formats(quick: bool) -> list[Figure]:
    from benchmarks.trail_formats import run  # noqa: PLC0415

    return run(quick=quick)


def values(quick: bool) -> list[Figure]:
    from benchmarks.values import run  # noqa: PLC0415

    del quick  # takes seconds
    return [figure_of(row) for row in run()]


def conditions(quick: bool) -> list[Figure]:
    from benchmarks.conditions import run  # noqa: PLC0415

    del quick  # takes seconds
    return [figure_of(row) for row in run()]


def capture_job(quick: bool) -> list[Figure]:
    from benchmarks.capture_job import run  # noqa: PLC0415

    return run(quick=quick)


def trail_spark(quick: bool) -> list[Figure]:
    from benchmarks.trail_spark import run  # noqa: PLC0415

    return run(quick=quick)


def trail_reading(quick: bool) -> list[Figure]:
    from benchmarks.trail_reading import run  # noqa: PLC0415

    return run(quick=quick)


def trail_limits(quick: bool) -> list[Figure]:
    from benchmarks.trail_limits import run  # noqa: PLC0415

    return run(quick=quick)


def memory(quick: bool) -> list[Figure]:
    from benchmarks.memory import run  # noqa: PLC0415

    return run(quick=quick)


def logdump(quick: bool) -> list[Figure]:
    from benchmarks.logdump import run  # noqa: PLC0415

    return run(quick=quick)


def check(quick: bool) -> list[Figure]:
    from benchmarks.check import run  # noqa: PLC0415

    return run(quick=quick)


def fixed(quick: bool) -> list[Figure]:
    from benchmarks.fixed import run  # noqa: PLC0415

    return run(quick=quick)


def cobrix(quick: bool) -> list[Figure]:
    from benchmarks.cobrix import run  # noqa: PLC0415

    return run(quick=quick)


def fixed_messages(quick: bool) -> list[Figure]:
    from benchmarks.fixed_messages import run  # noqa: PLC0415

    return run(quick=quick)


def json_messages(quick: bool) -> list[Figure]:
    from benchmarks.json_messages import run  # noqa: PLC0415

    return run(quick=quick)


def xml_messages(quick: bool) -> list[Figure]:
    from benchmarks.xml_messages import run  # noqa: PLC0415

    return run(quick=quick)


def publications(quick: bool) -> list[Figure]:
    from benchmarks.publications import run  # noqa: PLC0415

    return run(quick=quick)


def xml_cutting(quick: bool) -> list[Figure]:
    from benchmarks.xml_cutting import run  # noqa: PLC0415

    return run(quick=quick)


def publications_xml(quick: bool) -> list[Figure]:
    from benchmarks.publications_xml import run  # noqa: PLC0415

    return run(quick=quick)


def live(quick: bool) -> list[Figure]:
    from benchmarks.live import run  # noqa: PLC0415

    return run(quick=quick)


def scaling(quick: bool) -> list[Figure]:
    from benchmarks.scaling import run  # noqa: PLC0415

    return run(quick=quick)


def streams(quick: bool) -> list[Figure]:
    from benchmarks.streams import run  # noqa: PLC0415

    return run(quick=quick)


def stores(quick: bool) -> list[Figure]:
    from benchmarks.stores import run  # noqa: PLC0415

    return run(quick=quick)


BENCHMARKS: Final[Mapping[str, Benchmark]] = {
    function.__name__: function
    for function in (
        delimited,
        trail_codec,
        trail_formats,
        trail_reading,
        values,
        conditions,
        capture_job,
        trail_spark,
        trail_limits,
        memory,
        logdump,
        check,
        fixed,
        fixed_messages,
        xml_messages,
        publications,
        publications_xml,
        xml_cutting,
        json_messages,
        cobrix,
        live,
        scaling,
        streams,
        stores,
    )
}


def main(arguments: list[str]) -> int:
    """Run what is asked for, print it, keep it; with ``--strict`` 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="less data, minutes become seconds")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 where a target is missed"
    )
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    missed = False
    for name in asked.names or BENCHMARKS:
        before = report.load()
        report.SPREAD.measured = report.SPREAD.wide = 0
        figures = BENCHMARKS[name](asked.quick)
        path = report.keep(name, figures, quick=asked.quick)
        print(f"\n{name}  (kept in {path.relative_to(report.RESULTS.parent.parent)})")
        print(report.table(figures))
        print(f"{before}, at the end {report.load()}; {report.SPREAD}", flush=True)
        missed |= any(figure.met is False for figure in figures)
    return int(missed and asked.strict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
