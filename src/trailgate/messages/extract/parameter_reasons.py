"""Extract's parameters that are not obeyed: those that change nothing about the data, and those that would."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class LogOption(NamedTuple):
    """An option of TRANLOGOPTIONS: the member it adds to, or why it changes nothing."""

    takes_value: bool
    member: str = ""
    reason: str = ""


TRANSACTION_LOG: Final[Mapping[str, LogOption]] = MappingProxyType(
    {
        "EXCLUDEUSER": LogOption(True, "users"),
        "EXCLUDETRANS": LogOption(True, "transactions"),
        "VAMCOMPATIBILITY": LogOption(True, reason="there is one kind of capture only"),
        "GETMETADATAFROMVAM": LogOption(False, reason="metadata always come from the properties"),
    }
)

_NO_DATABASE: Final = "no database is read"
_NO_LOG: Final = "there is no transaction log"
_NOT_SENT: Final = "nothing is sent to another machine"
_SUMMARY: Final = "the run prints its own summary"
_NO_WAIT: Final = "a run reads the messages that are there, and ends"
_MEMORY: Final = "memory is bounded by itself"

NOTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ALLOWDUPTARGETMAP": "an operation is always written once",
        "CACHEMGR": _MEMORY,
        "CHECKPOINTSECS": "what is published is the checkpoint",
        "COMMENT": "a comment",
        "DBOPTIONS": _NO_DATABASE,
        "DDL": "messages carry no DDL",
        "DDLOPTIONS": "messages carry no DDL",
        "DISCARDFILE": "bad messages are quarantined by --on-error",
        "DISCARDROLLOVER": "bad messages are quarantined by --on-error",
        "DYNAMICRESOLUTION": _NO_DATABASE,
        "EOFDELAY": _NO_WAIT,
        "EOFDELAYCSECS": _NO_WAIT,
        "FETCHOPTIONS": _NO_DATABASE,
        "FLUSHCSECS": "files are published whole",
        "FLUSHSECS": "files are published whole",
        "GETAPPLOPS": "every user's operations are captured",
        "GETREPLICATES": "every user's operations are captured",
        "LIST": _SUMMARY,
        "LOGALLSUPCOLS": _NO_LOG,
        "NOALLOWDUPTARGETMAP": "an operation is always written once",
        "NODISCARDFILE": "bad messages are quarantined by --on-error",
        "NODYNAMICRESOLUTION": _NO_DATABASE,
        "NOLIST": _SUMMARY,
        "NOTCPSOURCETIMER": _NOT_SENT,
        "NUMFILES": _MEMORY,
        "PASSTHRU": "no trail is read",
        "NOPASSTHRU": "no trail is read",
        "REPORT": _SUMMARY,
        "REPORTCOUNT": _SUMMARY,
        "REPORTROLLOVER": _SUMMARY,
        "RMTHOST": _NOT_SENT,
        "RMTHOSTOPTIONS": _NOT_SENT,
        "SEQUENCE": "messages carry no sequences",
        "SOURCEDB": _NO_DATABASE,
        "STATOPTIONS": _SUMMARY,
        "TCPSOURCETIMER": _NOT_SENT,
        "THREADOPTIONS": _NO_LOG,
        "TRACE": _SUMMARY,
        "TRACE2": _SUMMARY,
        "USEANSISQLQUOTES": "it is always so",
        "USERID": _NO_DATABASE,
        "USERIDALIAS": _NO_DATABASE,
        "WARNLONGTRANS": _SUMMARY,
        "WILDCARDRESOLVE": "wildcards are resolved when the run begins",
    }
)

_INCLUDED: Final = "write the lines that it stands for into this file"
_AS_IS: Final = "text is captured as it is"
_OTHER_FORMAT: Final = "a trail is written, and no other format"
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BEGIN": "all messages are captured",
        "CHARSET": "messages are UTF-8",
        "COLMATCH": "columns are not mapped while messages are captured",
        "CUSEREXIT": "there are no user exits",
        "DECRYPTTRAIL": "no trail is read",
        "ENCRYPTTRAIL": "the trail would not be encrypted: keep it on an encrypted disk",
        "END": "all messages are captured",
        "EXCLUDETAG": "messages carry no tags",
        "EXCLUDEWILDCARDOBJECTSONLY": "TABLEEXCLUDE holds for all tables",
        "FORMATASCII": _OTHER_FORMAT,
        "FORMATSQL": _OTHER_FORMAT,
        "FORMATXML": _OTHER_FORMAT,
        "IGNOREAPPLOPS": "messages do not state who wrote them: EXCLUDEUSER leaves a user out",
        "IGNOREREPLICATES": "messages do not state who wrote them: EXCLUDEUSER leaves a user out",
        "INCLUDE": _INCLUDED,
        "MACRO": _INCLUDED,
        "MAP": "it belongs to Replicat: write TABLE",
        "NOUSEANSISQLQUOTES": "literals are in single quotes, names in double quotes",
        "OBEY": _INCLUDED,
        "REPLACEBADCHAR": "text that is not UTF-8 is an error of its message",
        "SOURCEISTABLE": "no database is read",
        "SQLEXEC": "no database is read",
        "TARGETDEFS": "columns are not mapped while messages are captured",
        "TRIMSPACES": _AS_IS,
        "NOTRIMSPACES": _AS_IS,
    }
)
