"""Parameters of GoldenGate's other files and processes.

With these lists, an error can distinguish a parameter in the wrong file from a misspelt one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

UNDOCUMENTED: Final = "it is one of GoldenGate's undocumented parameters"

# Parameters of Replicat and options of MAP that Extract does not have. A test compares this with
# Replicat's own tables.
OF_REPLICAT: Final = MappingProxyType(
    dict.fromkeys(
        [
            "REPLICAT",
            "MAPEXCLUDE",
            "REPERROR",
            "INSERTALLRECORDS",
            "NOINSERTALLRECORDS",
            "INSERTDELETES",
            "NOINSERTDELETES",
            "INSERTUPDATES",
            "NOINSERTUPDATES",
            "UPDATEDELETES",
            "NOUPDATEDELETES",
            "UPDATEINSERTS",
            "NOUPDATEINSERTS",
            "HANDLECOLLISIONS",
            "NOHANDLECOLLISIONS",
            "HANDLECOLLISIONSUNTIL",
            "INSERTMISSINGUPDATES",
            "NOINSERTMISSINGUPDATES",
            "ASSUMETARGETDEFS",
            "BATCHSQL",
            "NOBATCHSQL",
            "GROUPTRANSOPS",
            "MAXTRANSOPS",
            "SPLIT_TRANS_RECS",
            "TRANSACTIONTIMEOUT",
            "TARGETDB",
            "CHECKPOINTTABLE",
            "NODBCHECKPOINT",
            "THREAD",
            "THREADRANGE",
            "COORDINATED",
            "MAP_PARALLELISM",
            "APPLY_PARALLELISM",
            "MIN_APPLY_PARALLELISM",
            "MAX_APPLY_PARALLELISM",
            "COMMIT_SERIALIZATION",
            "LOOK_AHEAD_TRANSACTIONS",
            "USEDEDICATEDCOORDINATIONTHREAD",
            "CHUNK_SIZE",
            "MAXDISCARDRECS",
            "HANDLETPKUPDATE",
            "NOHANDLETPKUPDATE",
            "APPLYNOOPUPDATES",
            "NOAPPLYNOOPUPDATES",
            "ALLOWNOOPUPDATES",
            "NOALLOWNOOPUPDATES",
            "MAXSQLSTATEMENTS",
            "SPECIALRUN",
            "BULKLOAD",
            "INSERTAPPEND",
            "NOINSERTAPPEND",
            "RESTARTCOLLISIONS",
            "NORESTARTCOLLISIONS",
            "PRESERVETARGETTIMEZONE",
            "SOURCETIMEZONE",
            "SQLDUPERR",
            "OVERRIDEDUPS",
            "NOOVERRIDEDUPS",
            "MAPINVISIBLECOLUMNS",
            "NOMAPINVISIBLECOLUMNS",
            "MAPALLCOLUMNS",
            "NOMAPALLCOLUMNS",
            "EXCEPTIONSONLY",
            "MAPEXCEPTION",
            "RESOLVECONFLICT",
            "COMPARECOLS",
            "REPLACEBADNUM",
            "REPFETCHEDCOLOPTIONS",
            "FILTERDUPS",
            "NOFILTERDUPS",
            "DEFERAPPLYINTERVAL",
            "GENLOADFILES",
            "NAMEMATCH",
            "PARTITION",
            "PARTITIONEXCLUDE",
            "INTEGRATEDPARAMS",
        ],
        "it belongs to Replicat",
    )
)


def expand_reasons(names: Mapping[str, str]) -> Mapping[str, str]:
    """Map each parameter name to a reason, from ``{"a reason": "NAME1 NAME2"}``."""
    return MappingProxyType({one: reason for reason, own in names.items() for one in own.split()})


# From Oracle's parameter reference, 12.3 to 26, "Valid For". Names that are also parameters of Extract
# or Replicat are in their own tables, which are searched first.
FOREIGN: Final = expand_reasons(
    {
        "it belongs to GLOBALS, which is not read": (
            "ALLOWNULLABLEKEYS NOALLOWNULLABLEKEYS ALLOWINVISIBLEINDEXKEYS ALLOWNONVALIDATEDKEYS ALLOWOUTPUTDIR CHARMAP CREDENTIALSTORELOCATION CRYPTOENGINE "
            "DDLTABLE DISABLECATALOGNAMES DISABLE_HEARTBEAT_TABLE ENABLECATALOGNAMES ENABLEMONITORING ENABLE_HEARTBEAT_TABLE GGSCHEMA HEARTBEATTABLE MARKERTABLE "
            "MASTERKEYNAME MAXGROUPS MGRSERVNAME NAMECCSID NODUPMSGSUPPRESSION OUTPUTFILEUMASK SYSLOG TRAIL_SEQLEN_6D TRAIL_SEQLEN_9D USEIPV4 USEIPV6 "
            "WALLETLOCATION _USEOGGDEBUGTRACE"
        ),
        "it belongs to Manager": (
            "ACCESSRULE AUTORESTART AUTOSTART BOOTDELAYMINUTES CHECKMINUTES DOWNCRITICAL DOWNREPORT DOWNREPORTHOURS DOWNREPORTMINUTES DYNAMICPORTLIST LAGCRITICAL "
            "LAGCRITICALHOURS LAGCRITICALMINUTES LAGCRITICALSECONDS LAGINFO LAGINFOHOURS LAGINFOMINUTES LAGINFOSECONDS LAGREPORT LAGREPORTHOURS LAGREPORTMINUTES "
            "MANAGER MONITORING_HEARTBEAT_TIMEOUT PORT PURGEDDLHISTORY PURGEDDLHISTORYALT PURGEMARKERHISTORY PURGEOLDTASKS STARTUPVALIDATIONDELAY "
            "STARTUPVALIDATIONDELAYCSECS UPREPORT UPREPORTHOURS UPREPORTMINUTES USETHREADS NOUSETHREADS XAGENABLE"
        ),
        "it belongs to DEFGEN": "DEFSFILE NOCATALOG",
    }
)


def foreign_reason(name: str, others: Mapping[str, str]) -> str:
    """Return why a parameter is not supported that belongs to another file or process, or "".

    An example is a Replicat parameter in an Extract file. ``others`` has more such reasons by name.
    Names that begin with ``_`` and have no other reason are undocumented parameters.
    """
    reason = FOREIGN.get(name) or others.get(name, "")
    return reason or (UNDOCUMENTED if name.startswith("_") else "")
