"""Messages of a broker into a journal, by a thread: stored, then acknowledged, while somebody else reads them there."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.brokers.receiver import Receiver
from trailgate.errors import TrailgateError
from trailgate.messages.capture import MessageBatch
from trailgate.messages.parsing.message_ids import MessageIdRule, MessageIds
from trailgate.messages.received import as_messages
from trailgate.storage.files.journal.journal import Journal, JournalOptions

POLL_SECONDS: Final = 0.5
LOCK_SECONDS: Final = 15.0  # in which the process of an earlier start has to end
SETTLE_SECONDS: Final = 2.0
_LOG: Final = logging.getLogger("trailgate.brokers")


class StoringReceiver:
    """Receives into a journal, of which it is the only writer; begins when it is made.

    Raises StorageError where another run writes the journal. What goes wrong later is raised by ``check``: nothing is acknowledged
    that was not stored. With a ``rule`` the ids of messages are compared, and those that came before are not stored; the journal then
    keeps as many messages as are remembered, from which a later start knows them.
    """

    def __init__(
        self,
        receiver: Receiver,
        folder: Path,
        options: JournalOptions | None = None,
        rule: MessageIdRule | None = None,
    ) -> None:
        self._receiver, self._journal = receiver, Journal(folder, options, LOCK_SECONDS)
        self._ids = None if rule is None else MessageIds(rule)
        self._kept = 0 if rule is None else rule.remembered
        self._note_ids()
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
            self._journal.release(max(0, number - self._kept))

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
        messages, error = self._screened(window.messages)
        with self._changing:
            self._journal.append(messages)
        if error is not None:
            raise error
        self._receiver.acknowledge(window)

    def _note_ids(self) -> None:
        """Note the ids of the messages that the journal has."""
        if self._ids is not None:
            for stored in self._journal.read(
                max(self._journal.first, self._journal.next - self._kept)
            ):
                self._ids.screen(_messages(stored.messages))

    def _screened(self, messages: pa.RecordBatch) -> tuple[pa.RecordBatch, TrailgateError | None]:
        """Return the messages that did not come before, up to the first whose id is wrong, and its error."""
        if self._ids is None:
            return messages, None
        found = self._ids.screen(_messages(messages))
        kept = np.arange(len(messages)) if found.kept is None else found.kept
        wrong = min(found.problems, key=lambda problem: problem.message, default=None)
        if wrong is not None:
            kept = kept[kept < wrong.message]
        if found.duplicates:
            _LOG.warning("left out, since their ids (jms.id) came before: %d", found.duplicates)
        return messages.take(pa.array(kept)), None if wrong is None else wrong.error

    def _let_go(self) -> None:
        try:
            if self._error is None and self._receiver.is_connected:
                self._receiver.settle(SETTLE_SECONDS)
            self._receiver.close()
        except Exception as error:  # noqa: BLE001  what is not acknowledged comes again
            self._error = self._error or error
        finally:
            self._journal.close()


def _messages(received: pa.RecordBatch) -> MessageBatch:
    return as_messages(received, (0, np.arange(len(received))), "messages")[0]
