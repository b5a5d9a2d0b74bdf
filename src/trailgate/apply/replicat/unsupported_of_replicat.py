"""Reasons why Replicat parameters and MAP options have no effect here, or are errors.

Each of Oracle's documented parameters that ``replicat_files`` does not support has a row: in
``NOTED`` and ``MAP_NOTED`` if it does not affect the data, and in ``REFUSED`` and ``MAP_REFUSED``
if it does.
"""

from __future__ import annotations

from typing import Final

from trailgate.expressions.unsupported_parameters import expand_reasons

_NO_WAIT: Final = "--follow decides whether to wait for more"
_NO_CONVERSION: Final = "values are applied as the trail has them"
_NO_CHARSET: Final = "the trail's files and definitions state the character set"
_NO_EXCEPTIONS: Final = "there is no exceptions table: --on-error discard keeps the operations"
_NO_CONFLICTS: Final = "conflicts between sites are not resolved"
_NO_EXITS: Final = "there are no user exits"
_NO_EVENTS: Final = "there are no events"
_NO_SQL: Final = "there is no database that would run it"
_NO_MATCHING: Final = "columns are matched by name: write the pairs in COLMAP"
_ADDED: Final = "missing target columns are added, unless --schema-changes strict"

NOTED: Final = expand_reasons(
    {
        "definitions describe the tables": "ASSUMETARGETDEFS",
        "operations are always applied as net changes of a batch, in one commit": "BATCHSQL NOBATCHSQL GROUPTRANSOPS MAXTRANSOPS SPLIT_TRANS_RECS TRANSACTIONTIMEOUT",
        "the address in --to decides how to connect": "DBOPTIONS USERID USERIDALIAS TARGETDB SOURCEDB",
        "the positions of all tables are kept in the target": "CHECKPOINTSECS CHECKPOINTTABLE NODBCHECKPOINT",
        "splits of the trail are read by threads, and each table is written at once": (
            "THREAD THREADOPTIONS MAP_PARALLELISM APPLY_PARALLELISM MIN_APPLY_PARALLELISM MAX_APPLY_PARALLELISM COMMIT_SERIALIZATION LOOK_AHEAD_TRANSACTIONS "
            "COORDINATED USEDEDICATEDCOORDINATIONTHREAD CHUNK_SIZE"
        ),
        "the run prints its own summary": (
            "LIST NOLIST REPORT REPORTCOUNT REPORTROLLOVER STATOPTIONS TRACE TRACE2 SHOWSYNTAX NOSHOWSYNTAX DISCARDROLLOVER NODISCARDFILE SYSLOG WARNRATE"
        ),
        "the discard file has every operation that is discarded": "MAXDISCARDRECS",
        _NO_WAIT: "EOFDELAY EOFDELAYCSECS",
        "operations are always applied as they are logged": "DYNAMICRESOLUTION NODYNAMICRESOLUTION WILDCARDRESOLVE",
        "the first matching MAP of an operation writes it to its target": "NOALLOWDUPTARGETMAP",
        "several key updates of one statement are always distinguished": "HANDLETPKUPDATE NOHANDLETPKUPDATE",
        "an update that changes no column changes no row": "APPLYNOOPUPDATES NOAPPLYNOOPUPDATES ALLOWNOOPUPDATES NOALLOWNOOPUPDATES",
        "--to names the target": "TARGETDEFS",
        "memory is limited automatically": "CACHEMGR NUMFILES LOBMEMORY FUNCTIONSTACKSIZE MAXSQLSTATEMENTS",
        "the command names the trail": "EXTTRAIL EXTFILE",
        "a run ends with the trail, and the target keeps the position": "SPECIALRUN",
        "rows are always written in bulk": "BULKLOAD INSERTAPPEND NOINSERTAPPEND",
        "a restarted run repeats no operation": "RESTARTCOLLISIONS NORESTARTCOLLISIONS",
        "times are applied without a zone": "PRESERVETARGETTIMEZONE",
        "the files of the trail are kept": "PURGEOLDEXTRACTS",
        "no table of a tracing database is written": "TRACETABLE NOTRACETABLE",
        "the key shows whether a row already exists": "SQLDUPERR NOOVERRIDEDUPS",
        "text values stay as they are anyway": "NOSPACESTONULL NOTRIMSPACES NOTRIMVARSPACES NOVARWIDTHNCHAR NOBINARYCHARS",
        "names of tables are compared without case": "NAMEMATCHIGNORECASE NAMEMATCHNOWARNING",
        "invisible columns are columns of the definitions": "MAPINVISIBLECOLUMNS NOMAPINVISIBLECOLUMNS",
        _ADDED: "MAPALLCOLUMNS NOMAPALLCOLUMNS",
        "it is GoldenGate's default": "GETUPDATEAFTERS IGNOREUPDATEBEFORES",
        "nothing connects to a database in an Oracle character set": "HAVEUDTWITHNCHAR",
        "files are written with the process's own umask": "OUTPUTFILEUMASK",
        "a comment": "COMMENT",
    }
)
REFUSED: Final = expand_reasons(
    {
        _NO_SQL: "SQLEXEC PROCEDURE",
        _NO_EXITS: "CUSEREXIT EXITPARAM",
        _NO_EXCEPTIONS: "EXCEPTIONSONLY MAPEXCEPTION",
        _NO_CONFLICTS: "RESOLVECONFLICT COMPARECOLS",
        _NO_EVENTS: "EVENTACTIONS",
        "use --after-csn or --after to choose where to begin": "BEGIN",
        "write HANDLECOLLISIONS, and NOHANDLECOLLISIONS for the runs after that time": (
            "HANDLECOLLISIONSUNTIL"
        ),
        "the text of DDL is not changed, since no DDL is carried out": "DDLSUBST DDLRULEHINT",
        _NO_CONVERSION: (
            "REPLACEBADCHAR REPLACEBADNUM SPACESTONULL TRIMSPACES TRIMVARSPACES VARWIDTHNCHAR BINARYCHARS REPFETCHEDCOLOPTIONS SOURCETIMEZONE TCPSOURCETIMER"
        ),
        _NO_CHARSET: "COLCHARSET SOURCECHARSET TRAILCHARSET TRAILCHARSETASCII TRAILCHARSETEBCDIC TRAILCHARSETUNICODE TRAILBYTEORDER",
        "encrypted trails are not read: have a pump write the trail without encryption": "DECRYPTTRAIL",
        "it belongs to Extract: write MAP": "TABLE",
        "write MAPEXCLUDE SCHEMA.*": "SCHEMAEXCLUDE TABLEEXCLUDE CATALOGEXCLUDE",
        "the whole trail is read": "PASSTHRU FILTERDUPS NOFILTERDUPS",
        "operations cannot be delayed": "DEFERAPPLYINTERVAL",
        _NO_MATCHING: "COLMATCH",
        "names of tables are compared without case": "NAMEMATCH NAMEMATCHEXACT",
        "an existing row is a collision: HANDLECOLLISIONS overlays it": "OVERRIDEDUPS",
        "no files for a loader are written: --to names the tables": "GENLOADFILES",
        "use --dry-run instead": "CHECKPARAMS",
        "an update has no effect without the row after it": "IGNOREUPDATEAFTERS",
        "an insert has no row before it": "UPDATEINSERTS NOUPDATEINSERTS",
        "it belongs to the command that registers the group": "INTEGRATEDPARAMS",
        "it names a variable for @GETENV: write SETENV": "GETENV",
        "values of one row cannot be partitioned: write MAP for each table": "PARTITION PARTITIONEXCLUDE",
    }
)
MAP_NOTED: Final = expand_reasons(
    {
        "splits of the trail are read by threads, and each table is written at once": "THREAD THREADRANGE COORDINATED",
        "the discard file has every operation that is discarded": "MAXDISCARDRECS",
        "rows are always written in bulk": "INSERTAPPEND NOINSERTAPPEND",
        "invisible columns are columns of the definitions": "MAPINVISIBLECOLUMNS NOMAPINVISIBLECOLUMNS",
        _ADDED: "MAPALLCOLUMNS NOMAPALLCOLUMNS",
        "the target defines its own columns": "TARGETDEF",
        "an update that changes no column changes no row": "ALLOWNOOPUPDATES NOALLOWNOOPUPDATES APPLYNOOPUPDATES NOAPPLYNOOPUPDATES",
        "the first matching MAP of an operation writes it to its target": "NOALLOWDUPTARGETMAP",
        "several key updates of one statement are always distinguished": "HANDLETPKUPDATE NOHANDLETPKUPDATE",
        "text values stay as they are anyway": "NOTRIMSPACES NOTRIMVARSPACES NOSPACESTONULL",
        "the key shows whether a row already exists": "NOOVERRIDEDUPS",
        "it is GoldenGate's default": "GETUPDATEAFTERS IGNOREUPDATEBEFORES",
    }
)
MAP_REFUSED: Final = expand_reasons(
    {
        _NO_SQL: "SQLEXEC SQLPREDICATE",
        _NO_EXITS: "EXITPARAM",
        _NO_EXCEPTIONS: "EXCEPTIONSONLY MAPEXCEPTION",
        _NO_CONFLICTS: "RESOLVECONFLICT COMPARECOLS GETBEFORECOLS",
        _NO_EVENTS: "EVENTACTIONS",
        _NO_CONVERSION: "REPLACEBADCHAR SPACESTONULL TRIMSPACES TRIMVARSPACES VARWIDTHNCHAR",
        _NO_CHARSET: "CHARSET COLCHARSET",
        _NO_MATCHING: "COLMATCH",
        "write it before the first MAP; it then applies to all": "REPERROR",
        "definitions are found by the table's own name": "DEF",
        "an existing row is a collision: HANDLECOLLISIONS overlays it": "OVERRIDEDUPS",
        "an update has no effect without the row after it": "IGNOREUPDATEAFTERS",
        "an insert has no row before it": "UPDATEINSERTS NOUPDATEINSERTS",
        "write it before the MAP statements": "ALLOWDUPTARGETMAP",
        "columns are chosen by COLMAP": "COLS COLSEXCEPT",
        "it belongs to Extract": "FETCHCOLS FETCHCOLSEXCEPT FETCHMODCOLS FETCHMODCOLSEXCEPT FETCHBEFOREFILTER TOKENS PARTITIONOBJID",
        "write it before the MAP statements to which it applies": "GETUPDATEBEFORES",
    }
)
