"""Our daemon of Python workers has no traceback for rows that nobody reads, and hides no other error."""

from __future__ import annotations

import socket

import pytest

from trailgate.spark import worker_daemon


def sends_rows(sock: socket.socket, authenticated: bool) -> int:
    del authenticated
    for _ in range(1000):
        sock.sendall(bytes(1 << 16))
    return 0


def fails(sock: socket.socket, authenticated: bool) -> int:
    raise OSError(f"{sock.fileno() >= 0} {authenticated}")


def test_a_worker_ends_quietly_when_spark_stops_reading(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker_daemon, "run_task", sends_rows)
    ours, sparks = socket.socketpair()
    with ours:
        sparks.close()

        assert worker_daemon.worker(ours, True) == worker_daemon.CLOSED
    assert capfd.readouterr().err == ""


def test_another_error_of_a_worker_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_daemon, "run_task", fails)
    ours, sparks = socket.socketpair()
    with ours, sparks, pytest.raises(OSError, match="True False"):
        worker_daemon.worker(ours, False)


def test_a_task_that_is_read_to_its_end_has_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_daemon, "run_task", lambda *_: 7)
    ours, sparks = socket.socketpair()
    with ours, sparks:
        assert worker_daemon.worker(ours, True) == 7
