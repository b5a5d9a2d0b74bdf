"""Run the benchmarks: ``python -m benchmarks [names] [--quick]``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Final

from benchmarks import report

# Modules of this folder, in the order in which they run: each has ``run(quick=...)``, which returns figures.
BENCHMARKS: Final = (
    "delimited",
    "bad_messages",
    "trail_codec",
    "trail_formats",
    "trail_reading",
    "values",
    "conditions",
    "capture_job",
    "trail_spark",
    "trail_limits",
    "many",
    "apply",
    "apply_targets",
    "spark_merge",
    "apply_sizes",
    "memory",
    "logdump",
    "check",
    "browse",
    "fixed",
    "fixed_messages",
    "xml_messages",
    "publications",
    "publications_xml",
    "xml_cutting",
    "json_messages",
    "cobrix",
    "live",
    "publish",
    "scaling",
    "streams",
    "stores",
)


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
    print(report.machine(), flush=True)
    for name in asked.names or BENCHMARKS:
        before = report.load()
        report.SPREAD.measured = report.SPREAD.wide = 0
        figures = import_module(f"benchmarks.{name}").run(quick=asked.quick)
        path = report.keep(name, figures, quick=asked.quick)
        print(f"\n{name}  (kept in {path.relative_to(report.RESULTS.parent.parent)})")
        print(report.table(figures))
        print(f"{before}, at the end {report.load()}; {report.SPREAD}", flush=True)
        missed |= any(figure.met is False for figure in figures)
    return int(missed and asked.strict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
