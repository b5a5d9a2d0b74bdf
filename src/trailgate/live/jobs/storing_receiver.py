"""Receive a broker's messages into a journal, in a thread of the driver (the Spark format ``jms``).

Messages are stored, and then acknowledged. ``journal_stream.py`` reads them from the journal.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.errors import TrailgateError
from trailgate.live.brokers.receiver import Receiver
from trailgate.live.files.journal_writer import Journal, JournalOptions
from trailgate.messages.message_batch import MessageBatch, batch_of_received
from trailgate.messages.message_ids import MessageIdRule, MessageIds

# How long to wait for messages before looking whether the stream was stopped.
POLL_SECONDS: Final = 0.5
LOCK_SECONDS: Final = 15.0  # how long to wait for the process of an earlier start to end
SETTLE_SECONDS: Final = 2.0
_BROKER_LOG: Final = logging.getLogger("trailgate.brokers")


class StoringReceiver:
    """Receives a broker's messages into a journal, in a thread that starts when the object is created.

    It is the only writer of the journal: raises StorageError if another run writes to the journal.
    Later errors are raised by ``check``. No message is acknowledged before it is stored.

    With a ``rule``, messages with a known id (``jms.id``) are not stored. The journal then keeps as
    many captured messages as the rule remembers, so that a later start can read their ids.
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
        # The last step: from here on the thread uses everything above.
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    @property
    def end(self) -> int:
        """The number of the message that the journal stores next."""
        return self._journal.next

    def check(self) -> None:
        """Raise the error that stopped the thread that receives into the journal, if there is one."""
        if self._error is not None:
            raise self._error

    def is_quiet(self, seconds: float) -> bool:
        """Return whether the broker has been connected for ``seconds`` in which no message arrived."""
        since = self._quiet_since
        return since is not None and time.monotonic() - since >= seconds

    def release(self, number: int) -> None:
        """Delete the journal's messages before a number, except those whose ids are still needed."""
        with self._changing:
            self._journal.release(max(0, number - self._kept))

    def close(self) -> None:
        """Wait until acknowledgements are confirmed, and close the broker connection and the journal."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._store()
        except BaseException as error:  # noqa: BLE001  check() raises it
            self._error = error
        finally:
            self._disconnect()

    def _store(self) -> None:
        window = self._receiver.receive(POLL_SECONDS)
        if window is None:
            if not self._receiver.is_connected:
                self._quiet_since = None
            elif self._quiet_since is None:
                self._quiet_since = time.monotonic()
            return
        self._quiet_since = None
        messages, error = self._deduplicate(window.messages)
        # store first, then acknowledge
        with self._changing:
            self._journal.append(messages)
        if error is not None:
            raise error
        self._receiver.acknowledge(window)

    def _note_ids(self) -> None:
        """Read the ids of the last messages in the journal, as many as the rule remembers."""
        if self._ids is not None:
            for stored in self._journal.read(
                max(self._journal.first, self._journal.next - self._kept)
            ):
                self._ids.deduplicate(_with_messages(stored.messages))

    def _deduplicate(
        self, messages: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, TrailgateError | None]:
        """Return the received messages whose ids are new to the journal, and the error of the first message with an invalid id.

        That message and all later messages are not returned. The error is None if all ids are
        valid.
        """
        if self._ids is None:
            return messages, None
        deduplicated = self._ids.deduplicate(_with_messages(messages))
        kept = np.arange(len(messages)) if deduplicated.kept is None else deduplicated.kept
        wrong = min(deduplicated.problems, key=lambda problem: problem.message, default=None)
        if wrong is not None:
            kept = kept[kept < wrong.message]
        if deduplicated.duplicates:
            _BROKER_LOG.warning(
                "skipped messages whose ids (jms.id) were seen before: %d", deduplicated.duplicates
            )
        return messages.take(pa.array(kept)), None if wrong is None else wrong.error

    def _disconnect(self) -> None:
        try:
            if self._error is None and self._receiver.is_connected:
                self._receiver.settle(SETTLE_SECONDS)
            self._receiver.close()
        except Exception as error:  # noqa: BLE001  unacknowledged messages are redelivered
            self._error = self._error or error
        finally:
            self._journal.close()


def _with_messages(received: pa.RecordBatch) -> MessageBatch:
    return batch_of_received(received, (0, np.arange(len(received))), "messages")[0]
