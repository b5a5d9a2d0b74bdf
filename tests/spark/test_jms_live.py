"""The format ``jms`` receives from a real Artemis, and its operations are in a trail once, whatever is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from brokers import artemis as artemis_broker
from brokers.artemis import LOGIN, Artemis, sent
from brokers.live_place import LivePlace, messages, row, transactions
from brokers.real_brokers import OneBroker
from laws import chance, kills
from trailgate.live.files.journal_writer import Journal

ROOT = Path(__file__).parents[2]
OPERATIONS = 4_000  # of one round
# The process that receives, those that parse and write, and the one that started the query, with its process group.
DRIVER = "driver"
RECEIVER, WORKER = "python_streaming_source_runner", "pyspark.worker"
SECONDS = 400


@pytest.fixture
def artemis(one_broker: OneBroker, tmp_path_factory: pytest.TempPathFactory) -> Artemis:
    return one_broker.of(artemis_broker.running, tmp_path_factory)


def received(spark: SparkSession, place: LivePlace, **options: str) -> DataFrame:
    reader = spark.readStream.format("jms").options(idleSeconds="1", **options)
    return reader.load(f"{place.prefix}.journal")


def to_trail(frame: DataFrame, place: LivePlace) -> None:
    writer = frame.writeStream.format("trail").options(
        definitions=str(place.folder / "orders.def"), checkpointLocation=str(place.folder / "state")
    )
    writer.trigger(availableNow=True).start(str(place.prefix)).awaitTermination()


def test_a_queue_becomes_a_trail_over_restarts_and_transactions_over_batches(
    spark: SparkSession, artemis: Artemis, tmp_path: Path
) -> None:
    place = LivePlace(tmp_path)
    frame = received(
        spark, place, url=artemis.address("s.trail"), properties=str(place.properties),
        maxMessagesPerTrigger="2",
    )  # fmt: skip
    sent(artemis, "s.trail", [row(0, "W"), row(1, "B"), row(2, "M"), row(3, "E"), row(4, "B")])
    to_trail(frame, place)
    first = [number for number, _ in place.captured()]
    sent(artemis, "s.trail", [row(5, "E") + "\n" + row(6, "W")])
    to_trail(frame, place)
    to_trail(frame, place)

    assert first == [0, 1, 2, 3]
    assert place.captured() == [*zip(range(7), "WBMEBEW", strict=True)]
    assert artemis.waiting("s.trail") == 0
    (query,) = json.loads(Path(f"{place.prefix}.manifest.json").read_bytes())["queries"]
    assert query


def test_properties_name_the_source_and_messages_are_rows_without_them(
    spark: SparkSession, artemis: Artemis, tmp_path: Path
) -> None:
    url = f"stomp://127.0.0.1:{artemis.stomp}"
    more = f"java.naming.provider.url={url}\njms.destination=dynamicQueues/s.named\njms.user={LOGIN[0]}\njms.password={LOGIN[1]}\n"
    place = LivePlace(tmp_path, more)
    sent(artemis, "s.named", [row(0, "W")])
    to_trail(received(spark, place, properties=str(place.properties)), place)
    assert place.captured() == [(0, "W")]

    sent(artemis, "s.rows", ["a", "b"])
    own = received(spark, place, url=f"{url}/s.rows", user=LOGIN[0], password=LOGIN[1])
    writer = own.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "s"))
    writer.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("number").collect()
    assert [bytes(one.body) for one in rows][-2:] == [b"a", b"b"]


def test_a_second_receiver_is_an_error_that_names_the_first(
    spark: SparkSession, artemis: Artemis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = LivePlace(tmp_path)
    frame = received(spark, place, url=artemis.address("s.second"))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "s"))
    holder = rf"another run is writing this journal: process {os.getpid()} of"
    with Journal(Path(f"{place.prefix}.journal")):
        query = writer.trigger(availableNow=True).start()
        with pytest.raises(PySparkException, match=holder):
            query.awaitTermination()


def descendants(process: int) -> dict[int, str]:
    """Return the processes below one, with their command lines."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text()
            names[int(path.name)] = (path / "cmdline").read_text()
        except OSError:
            continue
        parents[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    level = {process}
    while level:
        level = {one for one, parent in parents.items() if parent in level}
        found.update({one: names[one] for one in level})
    return found


class Driver:
    """The program of a query, in a session of its own."""

    def __init__(self, place: LivePlace, url: str) -> None:
        self._place, self._url = place, url
        self.log = place.folder / "driver.log"
        self.start()

    def start(self) -> None:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        program = Path(__file__).with_name("jms_to_trail.py")
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(program), str(self._place.folder), self._url],
                env={**os.environ, "PYTHONPATH": path},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for_batch(self, number: int) -> None:
        """Wait until a batch was planned."""
        until = time.monotonic() + SECONDS
        while self.planned() < number:
            assert self.process.poll() is None, self.log.read_text()[-5000:]
            assert time.monotonic() < until, self.log.read_text()[-5000:]
            time.sleep(0.05)

    def planned(self) -> int:
        """Return the number of the last batch that was planned, -1 before the first."""
        folder = self._place.folder / "state/offsets"
        return max((int(path.name) for path in folder.glob("[0-9]*")), default=-1)

    def kill_below(self, what: str, drawn: random.Random) -> None:
        """Kill one of the Python processes that Spark has for the query, if there is one with such a name now."""
        found = [one for one, name in descendants(self.process.pid).items() if what in name]
        if found:
            with suppress(ProcessLookupError):
                os.kill(drawn.choice(found), signal.SIGKILL)

    def kill(self) -> None:
        """Kill the driver with its whole process group."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            below = descendants(self.process.pid)
            self.kill()
            for one in below:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(720 + 60 * kills(3))
def test_each_operation_is_in_the_trail_once_whatever_process_of_spark_is_killed(
    artemis: Artemis, tmp_path: Path
) -> None:
    drawn, rounds = chance("processes of spark"), kills(3)
    kinds = drawn.sample([RECEIVER, DRIVER, WORKER], 3)
    place = LivePlace(tmp_path)
    wanted = transactions(drawn, OPERATIONS * rounds)
    bodies = list(messages(drawn, wanted))
    queue = "killed.spark"
    driver = Driver(place, artemis.address(queue))
    killed: list[str] = []
    try:
        for number in range(rounds):
            size, known = len(bodies) // rounds + 1, driver.planned()
            sent(artemis, queue, bodies[number * size : (number + 1) * size])
            driver.wait_for_batch(known + 1)
            time.sleep(drawn.uniform(0.0, 1.0))
            killed.append(kinds[number % len(kinds)])
            if killed[-1] == DRIVER:
                driver.kill()
                driver.start()
            else:
                driver.kill_below(killed[-1], drawn)
        (place.folder / "stop").touch()
        assert driver.process.wait(SECONDS) == 0, driver.log.read_text()[-5000:]
    finally:
        driver.close()

    sys.stdout.write(f"killed: {', '.join(killed)}\n")
    assert place.captured() == [one for transaction in wanted for one in transaction], killed
