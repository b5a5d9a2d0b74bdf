"""Real brokers, started from packages: fetched once from Maven Central, run in a folder of their own, always stopped.

Two brokers run at a time on a machine: one of two locks is held from start to stop.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, Protocol, TypeVar

import pytest

CACHE: Final = Path(os.environ.get("TRAILGATE_BROKERS", Path.home() / ".cache/trailgate-brokers"))
START_SECONDS: Final = 180  # a busy machine reads a long queue
FETCH_SECONDS: Final = 240
STOP_SECONDS: Final = 60
BROKERS: Final = 6  # that run at once: about 400 MB each
# To compile well takes longer than to run for seconds, and to verify classes takes a tenth of a start.
QUICK_JAVA: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
# The kernel ends a server when the process that started it ends, however it does: a run of tests may be killed.
WHILE_TESTS_RUN: Final = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


def environment() -> dict[str, str]:
    """Return the environment with Java's options for what runs for seconds; the programs name their own collectors."""
    return {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA}


def run(command: Sequence[object], *, seconds: float = 120, cwd: Path | None = None) -> str:
    """Return what a program printed; raises where it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@contextmanager
def _locked(name: str) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def unpacked(name: str) -> Iterator[tuple[Path, Path]]:
    """Give the folder of a package and an empty path beside it to make it at, while no other process does."""
    folder = CACHE / name.replace(":", "-")
    with _locked(folder.name):
        target = CACHE / f".{folder.name}.new"
        shutil.rmtree(target, ignore_errors=True)
        yield folder, target


def fetched(coordinates: str) -> Path:
    """Return the folder of an unpacked package of Maven Central; skips the test where it cannot be had."""
    folder = CACHE / coordinates.replace(":", "-")
    with _locked(folder.name):
        if folder.exists():
            return next(path for path in folder.iterdir() if path.is_dir())
        for tool in ("java", "mvn"):
            if shutil.which(tool) is None:
                pytest.skip(f"no broker: the program {tool} is not installed")
        target = CACHE / f".{folder.name}.new"
        shutil.rmtree(target, ignore_errors=True)
        command = [
            "mvn",
            "-q",
            "dependency:copy",
            f"-Dartifact={coordinates}",
            f"-DoutputDirectory={target}",
        ]
        try:
            run(command, seconds=FETCH_SECONDS)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"no broker: Maven cannot find {coordinates}: {_reason(str(error))}")
        archive = next(target.glob("*.tar.gz"))
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="tar")
        archive.unlink()
        target.rename(folder)
        return next(path for path in folder.iterdir() if path.is_dir())


POM: Final = """\
<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def fetched_jars(*coordinates: str) -> Path:
    """Return a folder of jars with all that they need; skips the test where they cannot be had."""
    folder = CACHE / "-".join(coordinates).replace(":", "-")
    with _locked(folder.name):
        if folder.exists():
            return folder
        for tool in ("java", "mvn"):
            if shutil.which(tool) is None:
                pytest.skip(f"no broker: the program {tool} is not installed")
        target = CACHE / f".{folder.name}.new"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        rows = "".join(DEPENDENCY.format(*one.split(":")) for one in coordinates)
        (target / "pom.xml").write_text(POM.format(rows))
        command = ["mvn", "-q", "-f", target / "pom.xml", "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        try:
            run(command, seconds=FETCH_SECONDS)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"no broker: Maven cannot find {coordinates[0]}: {_reason(str(error))}")
        target.rename(folder)
        return folder


def copied_jars(*coordinates: str) -> Path:
    """Return a folder of these jars alone; skips the test where one cannot be had."""
    folder = CACHE / coordinates[0].replace(":", "-")
    with _locked(folder.name):
        if folder.exists():
            return folder
        if shutil.which("mvn") is None:
            pytest.skip("no jars: the program mvn is not installed")
        target = CACHE / f".{folder.name}.new"
        shutil.rmtree(target, ignore_errors=True)
        for one in coordinates:
            command = ["mvn", "-q", "dependency:copy", f"-Dartifact={one}"]
            try:
                run([*command, f"-DoutputDirectory={target}"], seconds=FETCH_SECONDS)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"no jars: Maven cannot find {one}: {_reason(str(error))}")
        target.rename(folder)
        return folder


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if "Could not" in line or "ERROR" in line]
    return (lines or text.splitlines() or ["?"])[0][:200]


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Process:
    """The process of a broker: started, killed, started again, and never left behind."""

    def __init__(self, command: Sequence[object], log: Path, ready: Callable[[], bool]) -> None:
        self._command, self._log, self._ready = [str(part) for part in command], log, ready
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the number of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [*WHILE_TESTS_RUN, *self._command]
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment(), start_new_session=True
            )
        until = time.monotonic() + START_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > until:
                tail = self._log.read_text(errors="replace")[-3000:]
                self.stop()
                raise AssertionError(f"the broker does not start:\n{tail}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(STOP_SECONDS)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


def answers(port: int, data: bytes, expected: bytes) -> bool:
    """Return whether what listens on a port answers to some bytes as expected."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as opened:
            opened.settimeout(2)
            opened.sendall(data)
            return expected in opened.recv(4096)
    except OSError:
        return False


class Started(Protocol):
    """A broker that was started."""

    @property
    def process(self) -> Process: ...


Broker = TypeVar("Broker", bound=Started)


class OneBroker:
    """The broker that runs: for one test after the other, until one asks for another one."""

    def __init__(self) -> None:
        self._start: object = None
        self._broker: Any = None
        self._open = ExitStack()

    def of(
        self,
        start: Callable[[Path], AbstractContextManager[Broker]],
        folders: pytest.TempPathFactory,
    ) -> Broker:
        """Return the broker that a function starts in a folder, which runs if it was started by the same one."""
        if self._start != start:
            self.close()
            self._broker = self._open.enter_context(start(folders.mktemp("broker")))
            self._start = start
        broker: Broker = self._broker
        if not broker.process.runs:  # a test failed that had killed it
            broker.process.start()
        return broker

    def close(self) -> None:
        """Stop what runs."""
        self._start = None
        self._open.close()


@contextmanager
def limited_brokers() -> Iterator[None]:
    """Wait until fewer than ``BROKERS`` brokers run on this machine.

    A broker runs until its process has run all tests, so a lower limit lets others wait for minutes.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        locks = [
            opened.enter_context((CACHE / f".broker-{at}.lock").open("w")) for at in range(BROKERS)
        ]
        while not any(map(_is_taken, locks)):
            time.sleep(0.1)
        yield


def _is_taken(lock: IO[str]) -> bool:
    """Take a lock if no other process has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
