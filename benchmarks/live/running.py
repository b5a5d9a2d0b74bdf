"""All benchmarks of live captures; those whose broker cannot be had print why and give nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from benchmarks.live import journal, kafka, latency, memory, places, queues
from benchmarks.report import Figure

from brokers import artemis
from brokers.live_place import LivePlace


def run(*, quick: bool) -> list[Figure]:
    """Return the figures."""
    figures: list[Figure] = []
    for group in (journal.figures, _of_artemis, _of_kafka):
        try:
            for figure in group(quick=quick):
                print(figure, flush=True)  # the whole takes minutes
                figures.append(figure)
        except pytest.skip.Exception as reason:
            print(reason)
    return figures


def _of_artemis(*, quick: bool) -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder,
        artemis.running(Path(folder)) as broker,
    ):
        groups: dict[str, Callable[..., Iterator[Figure]]] = {
            "queues": queues.figures,
            "latency": partial(latency.figures, "stomp"),
            "memory": memory.figures,
        }
        for name, group in groups.items():
            place = LivePlace(places.made(Path(folder, name)))
            yield from group(broker, place, quick=quick)


def _of_kafka(*, quick: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        yield from kafka.figures(Path(folder), quick=quick)
