"""The options of a capture, declared once: flags of the command line, and rows of Spark's formats (``options.py`` states how).

This loads neither pyarrow nor numpy, since the help of the command needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from trailgate.options import COUNT, PATH, PATHS, TEXT, Flag
from trailgate.storage.writing.options import (
    ByteOrderName,
    FormatRelease,
    MaxBytes,
    SeqDigits,
    UpdateFormatName,
)

LEAST_REMEMBERED: Final = 10_000  # ids: fewer are not many times what brokers send ahead
Properties = Annotated[str | None, PATH, Flag("FILE"), "The capture's properties."]
Extract = Annotated[str | None, PATH, Flag("FILE"), "An Extract parameter file that names them."]
MessagePer = Annotated[
    Literal["file", "line"], "What a message is; .jsonl files always have one a line."
]
OnError = Annotated[
    Literal["stop", "quarantine"], "Stop, or move bad messages aside, as PREFIX.quarantine.jsonl."
]
IgnoreUnsupported = Annotated[
    bool, "Capture without the parameters that are not obeyed, and list them."
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureArguments:
    """What a capture is given: each field is a flag of ``trailgate capture``, in the order of its help."""

    source: Annotated[
        list[str],
        PATHS,
        Flag("PATH", "--from"),
        "A folder of messages, a file, a pattern, or - (stdin); repeatable. Or a broker: stomp://HOST/QUEUE.",
    ] = field(default_factory=list)
    properties: Properties = None
    extract: Extract = None
    target: Annotated[str | None, PATH, Flag("PREFIX", "--to"), "The trail, as dirdat/ot."] = None
    apply_to: Annotated[
        str | None,
        TEXT,
        Flag("ADDRESS", "--apply"),
        "Apply the trail to tables too, as delta:lake/.",
    ] = None
    definitions: Annotated[
        str | None,
        PATH,
        Flag("FILE"),
        "The definitions file, instead of the one that the properties name.",
    ] = None
    message_per: MessagePer = "file"
    on_error: OnError = "stop"
    max_bad: Annotated[
        int | None, COUNT, Flag("N", least=0), "With more bad messages publish nothing."
    ] = None
    max_bytes: MaxBytes = None
    seq_digits: SeqDigits = 9
    format_release: FormatRelease = None
    byte_order: ByteOrderName = None
    update_format: UpdateFormatName = None
    no_compress_updates: Annotated[bool, "As NOCOMPRESSUPDATES."] = False
    update_befores: Annotated[bool, "As GETUPDATEBEFORES."] = False
    no_compress_deletes: Annotated[bool, "As NOCOMPRESSDELETES."] = False
    ignore_unsupported: IgnoreUnsupported = False
    base: Annotated[
        str | None,
        PATH,
        Flag("FOLDER"),
        "The folder that relative paths are from, those inside the files too.",
    ] = None
    again: Annotated[bool, "Capture what was captured before once more."] = False
    unordered_ids: Annotated[bool, "Capture sequence ids that fall or repeat."] = False
    follow: Annotated[bool, "Receive from a broker until stopped."] = False
    until_empty: Annotated[bool, "Receive from a broker until nothing comes."] = False
    remember_ids: Annotated[
        int | None,
        COUNT,
        Flag("N", least=LEAST_REMEMBERED),
        "Ids of messages that are known when they come again; default 200000.",
    ] = None
    metrics: Annotated[
        str | None,
        TEXT,
        Flag("PORT|FILE"),
        "From a broker: give metrics to Prometheus, at a port or in a file.prom.",
    ] = None
    dry_run: Annotated[bool, "Parse and report, write nothing."] = False
    as_json: Annotated[bool, Flag(name="--json"), "Print the summary as a JSON object."] = False
    master: Annotated[str | None, TEXT, Flag("MASTER"), "Run on Spark, as local[2]."] = None
    threads: Annotated[
        int | None, COUNT, Flag("N", least=1), "Threads of this process; else one a core."
    ] = None
