"""Parameters of Extract that are not supported, with the reason: they have no effect here, or are errors.

The tables cover each parameter in Oracle's reference that ``extract_files`` does not support, and
each option of TABLE and of TRANLOGOPTIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.expressions.unsupported_parameters import expand_reasons

_NO_DATABASE: Final = "no database is read"
_NO_TRAIL: Final = "no trail is read"
_NO_LOG: Final = "there is no transaction log"
_NOT_MAPPED: Final = "columns are not mapped while messages are captured"
_NO_EXITS: Final = "there are no user exits"
_NO_EVENTS: Final = "there are no events"
_IN_UTF_8: Final = "messages are UTF-8"
_AS_IS: Final = "text is captured as it is"
_BAD_TEXT: Final = "text that is not UTF-8 is an error of its message"
_NO_TAGS: Final = "messages carry no tags"
_ONE_MACHINE: Final = "nothing is sent to another machine"
_EVERY_UPDATE: Final = "every update of the messages is captured"
_UNKNOWN_WRITER: Final = "messages do not state who wrote them: EXCLUDEUSER excludes a user"

NOTED: Final = expand_reasons(
    {
        "an operation is always written once": "ALLOWDUPTARGETMAP NOALLOWDUPTARGETMAP",
        "memory is limited automatically": "CACHEMGR NUMFILES LOBMEMORY TRANSMEMORY FUNCTIONSTACKSIZE",
        "the published trail is the checkpoint": "CHECKPOINTSECS BR",
        "a comment": "COMMENT",
        _NO_DATABASE: "DBOPTIONS DSOPTIONS DYNAMICRESOLUTION NODYNAMICRESOLUTION FETCHOPTIONS MAXFETCHSTATEMENTS HAVEUDTWITHNCHAR SOURCEDB USERID USERIDALIAS",
        "messages carry no DDL": "DDL DDLERROR DDLOPTIONS DDLRULEHINT DDLSUBST",
        "bad messages are quarantined by --on-error": "DISCARDFILE NODISCARDFILE DISCARDROLLOVER",
        "a run reads the existing messages and ends": "EOFDELAY EOFDELAYCSECS",
        "only complete files are published": "FLUSHCSECS FLUSHSECS",
        "every user's operations are captured": "GETAPPLOPS GETREPLICATES",
        "it is the default of GoldenGate": "GETUPDATEAFTERS NOENCRYPTTRAIL",
        "the run prints its own summary": "LIST NOLIST REPORT REPORTCOUNT REPORTROLLOVER SHOWSYNTAX NOSHOWSYNTAX STATOPTIONS SYSLOG TRACE TRACE2 WARNLONGTRANS WARNRATE",
        _NO_LOG: "LOGALLSUPCOLS THREADOPTIONS",
        "names of tables are compared without case": "NAMEMATCHIGNORECASE NAMEMATCHNOWARNING",
        _ONE_MACHINE: "TCPSOURCETIMER NOTCPSOURCETIMER RMTHOST RMTHOSTOPTIONS",
        _NO_TRAIL: "PASSTHRU NOPASSTHRU",
        "files are written with the process's own umask": "OUTPUTFILEUMASK",
        "files of the trail are kept, and a new one begins by size": "PURGEOLDEXTRACTS ROLLOVER",
        "messages carry no sequences": "SEQUENCE",
        "messages carry no procedures": "PROCEDURE PROCEDUREEXCLUDE",
        "text is always captured unchanged": "NOTRIMSPACES NOTRIMVARSPACES NOSPACESTONULL NOVARWIDTHNCHAR NOBINARYCHARS",
        "no table of a tracing database is written": "TRACETABLE NOTRACETABLE",
        "wildcards are resolved when the run begins": "WILDCARDRESOLVE",
    }
)
REFUSED: Final = expand_reasons(
    {
        "all messages are captured": "BEGIN END",
        _IN_UTF_8: "CHARSET COLCHARSET SOURCECHARSET TRAILCHARSET TRAILCHARSETASCII TRAILCHARSETEBCDIC TRAILCHARSETUNICODE",
        _NOT_MAPPED: "COLMATCH TARGETDEFS",
        _NO_EXITS: "CUSEREXIT",
        _NO_EVENTS: "EVENTACTIONS",
        _NO_TRAIL: "DECRYPTTRAIL",
        "the trail would not be encrypted: keep it on an encrypted disk": "ENCRYPTTRAIL",
        _NO_TAGS: "EXCLUDETAG",
        "TABLEEXCLUDE applies to all tables": "EXCLUDEWILDCARDOBJECTSONLY",
        "a trail is the only output format": "FORMATASCII FORMATSQL FORMATXML",
        _UNKNOWN_WRITER: "IGNOREAPPLOPS IGNOREREPLICATES",
        "an update has no effect without the row after it": "IGNOREUPDATEAFTERS",
        "it belongs to Replicat: write TABLE": "MAP",
        "names of tables are compared without case": "NAMEMATCHEXACT",
        _BAD_TEXT: "REPLACEBADCHAR",
        _NO_DATABASE: "SOURCEISTABLE SQLEXEC",
        _ONE_MACHINE: "RMTTASK",
        _AS_IS: "TRIMSPACES TRIMVARSPACES SPACESTONULL VARWIDTHNCHAR BINARYCHARS",
        "--max-bad states how many bad messages are too many": "ABORTDISCARDRECS",
        "--dry-run looks without capturing": "CHECKPARAMS",
        "it names a variable for @GETENV: write SETENV": "GETENV",
    }
)
REASONS: Final = expand_reasons(
    {
        _NOT_MAPPED: "COLMAP TARGET TARGETDEF",
        "the properties file names the definitions": "DEF",
        _NO_DATABASE: "SQLEXEC SQLPREDICATE FETCHCOLS FETCHCOLSEXCEPT FETCHMODCOLS FETCHMODCOLSEXCEPT FETCHBEFOREFILTER",
        "GETUPDATEBEFORES gives the before values": "GETBEFORECOLS",
        _NO_EXITS: "EXITPARAM",
        _NO_EVENTS: "EVENTACTIONS",
        _IN_UTF_8: "CHARSET COLCHARSET",
        _AS_IS: "TRIMSPACES TRIMVARSPACES SPACESTONULL",
        _BAD_TEXT: "REPLACEBADCHAR",
        "messages carry no partitions": "PARTITIONOBJID",
    }
)
TABLE_NOTED: Final = expand_reasons(
    {
        "text is always captured unchanged": "NOTRIMSPACES NOTRIMVARSPACES NOSPACESTONULL",
        "an operation is always written once": "ALLOWDUPTARGETMAP NOALLOWDUPTARGETMAP",
    }
)
_LOG_NOTED: Final = expand_reasons(
    {
        "there is one kind of capture only": "VAMCOMPATIBILITY",
        "metadata always come from the properties": "GETMETADATAFROMVAM",
        _NO_LOG: (
            "ALTARCHIVEDLOGFORMAT ALTARCHIVELOGDEST ALTLOGDEST ALLOWTABLECOMPRESSION ARCHIVEDLOGONLY ASMBUFSIZE ASMPASSWORD ASMUSER ASMUSERALIAS ASYNCTRANSPROCESSING "
            "NOASYNCTRANSPROCESSING BUFSIZE CHECKPOINTRETENTIONTIME CHECKTABLELEVELSUPPLOG COMPLETEARCHIVEDLOGONLY NOCOMPLETEARCHIVEDLOGONLY "
            "COMPLETEARCHIVEDLOGTIMEOUT DBLOGREADER DBLOGREADERBUFSIZE DLFAILOVER_TIMEOUT DB2APIRETRY FAILOVERTARGETDESTID HANDLEDLFAILOVER INTEGRATEDPARAMS "
            "LOGRETENTION LOGSOURCE MANAGECDCCLEANUP NOMANAGECDCCLEANUP MANAGESECONDARYTRUNCATIONPOINT NOMANAGESECONDARYTRUNCATIONPOINT MAXAUTOCMTTRANSSIZE "
            "MAXREADSIZE MAXWARNEOF MINEFROMACTIVEDG NOMINEFROMACTIVEDG MINEFROMSNAPSHOTSTBY NOMINEFROMSNAPSHOTSTBY MININGUSER MININGUSERALIAS NODDLCHANGEWARNING "
            "PATHMAP PERFORMANCEPROFILE PREPAREFORUPGRADETOIE NOPREPAREFORUPGRADETOIE PURGEORPHANEDTRANSACTIONS NOPURGEORPHANEDTRANSACTIONS QUERYRETRYCOUNT "
            "QUERYTIMEOUT READQUEUESIZE READTIMEOUT REDO_TRANSPORT_LAG_TIMEOUT SUPPRESSALLSUPPLOGCHECK TRANCOUNT TRANSCLEANUPFREQUENCY TSLOOKUPBEGINLRI "
            "TSLOOKUPENDLRI USEPREVRESETLOGSID NOUSEPREVRESETLOGSID VERSIONCHECK TRUNCATIONPOINT"
        ),
        _NO_DATABASE: (
            "CONVERTUCS2CLOBS NOCONVERTUCS2CLOBS ENABLE_AUTO_CAPTURE ENABLE_PROCEDURAL_REPLICATION FETCHLOBIFERROR FETCHINLINESFLOB FETCHPARTIALJSON FETCHPARTIALLOB FETCHPARTIALXML "
            "FORCEFETCHLOB LEGACYLOBREADING LOB_CHUNK_SIZE USENATIVEOBJSUPPORT NOUSENATIVEOBJSUPPORT VALIDATEINLINESFLOB IGNOREDATACAPTURECHANGES "
            "NOIGNOREDATACAPTURECHANGES REQUIRELONGDATACAPTURECHANGES NOREQUIRELONGDATACAPTURECHANGES"
        ),
        "times are those of the messages": "SOURCE_OS_TIMEZONE USE_ROOT_CONTAINER_TIMEZONE INCLUDEREGIONID INCLUDEREGIONIDWITHOFFSET",
        "it is the default of GoldenGate": "NOGETCTASDML",
    }
)
_LOG_REFUSED: Final = expand_reasons(
    {
        _NO_TAGS: "EXCLUDETAG",
        "messages name users: EXCLUDEUSER excludes one": "EXCLUDEUSERID",
        _UNKNOWN_WRITER: "FILTERTABLE EXCLUDEFILTERTABLE",
        "messages do not state how rows were loaded": "IGNOREDIRECTLOADINSERTS GETCTASDML",
        _EVERY_UPDATE: "SUPPRESSNOOOPUPDATES",
    }
)


class LogOption(NamedTuple):
    """An option of TRANLOGOPTIONS.

    Its value is added to the field ``member`` of ``ExtractParameters``. If it is not supported,
    ``noted`` states why it has no effect, or ``refused`` why it is an error.
    """

    member: str = ""
    noted: str = ""
    refused: str = ""


# By the option of TRANLOGOPTIONS.
TRANSACTION_LOG: Final[Mapping[str, LogOption]] = MappingProxyType(
    {
        "EXCLUDEUSER": LogOption("users"),
        "EXCLUDETRANS": LogOption("transactions"),
        **{name: LogOption(noted=reason) for name, reason in _LOG_NOTED.items()},
        **{name: LogOption(refused=reason) for name, reason in _LOG_REFUSED.items()},
    }
)
