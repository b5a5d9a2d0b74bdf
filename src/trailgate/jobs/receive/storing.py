"""Messages of a broker into a journal, by a thread: stored, then acknowledged, while somebody else reads them there."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

from trailgate.brokers.receiver import Receiver
from trailgate.storage.files.journal.journal import Journal, JournalOptions

POLL_SECONDS: Final = 0.5
LOCK_SECONDS: Final = 15.0  # in which the process of an earlier start has to end
SETTLE_SECONDS: Final = 2.0


class StoringReceiver:
    """Receives into a journal, of which it is the only writer; begins when it is made.

    Raises StorageError where another run writes the journal. What goes wrong later is raised by ``check``: nothing is acknowledged
    that was not stored.
    """

    def __init__(
        self, receiver: Receiver, folder: Path, options: JournalOptions | None = None
    ) -> None:
        self._receiver, self._journal = receiver, Journal(folder, options, LOCK_SECONDS)
        self._changing, self._stopping = threading.Lock(), threading.Event()
        self._quiet_since: float | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    @property
    def end(self) -> int:
        """Return the number of the message that is stored next."""
        return self._journal.next

    def check(self) -> None:
        """Raise what stopped the thread, if anything did."""
        if self._error is not None:
            raise self._error

    def is_quiet(self, seconds: float) -> bool:
        """Return whether nothing came for so long, over a connection."""
        since = self._quiet_since
        return since is not None and time.monotonic() - since >= seconds

    def release(self, number: int) -> None:
        """Remove what is before a message from the journal."""
        with self._changing:
            self._journal.release(number)

    def close(self) -> None:
        """Wait until acknowledgements are confirmed, and let go of broker and journal."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._store()
        except BaseException as error:  # noqa: BLE001  raised where somebody waits for messages
            self._error = error
        finally:
            self._let_go()

    def _store(self) -> None:
        window = self._receiver.receive(POLL_SECONDS)
        if window is None:
            if not self._receiver.is_connected:
                self._quiet_since = None
            elif self._quiet_since is None:
                self._quiet_since = time.monotonic()
            return
        self._quiet_since = None
        with self._changing:
            self._journal.append(window.messages)
        self._receiver.acknowledge(window)

    def _let_go(self) -> None:
        try:
            if self._error is None and self._receiver.is_connected:
                self._receiver.settle(SETTLE_SECONDS)
            self._receiver.close()
        except Exception as error:  # noqa: BLE001  what is not acknowledged comes again
            self._error = self._error or error
        finally:
            self._journal.close()
