"""Parameters of Extract and Replicat files that are not supported: remarks and the error, and those of other files and processes.

A parameter without effect here is reported. One that would change the data is an error, unless
``--ignore-unsupported`` is set; then it is reported too. With the lists of parameters of
GoldenGate's other files and processes, an error can distinguish a parameter in the wrong file from
a misspelt one. Extract's own unsupported parameters are in ``unsupported_of_extract``, Replicat's in
``apply.replicat.unsupported_of_replicat``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from trailgate.errors import OptionError, Where

if TYPE_CHECKING:
    from trailgate.definitions.parameter_files import ParameterStatement

UNDOCUMENTED: Final = "it is one of GoldenGate's undocumented parameters"
UNKNOWN_OPTION: Final = "unknown option"


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
    """Map the names of unsupported parameters to the reason, from ``{"a reason": "NAME1 NAME2"}``."""
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


class ParameterRemark(NamedTuple):
    """A remark on an unsupported parameter or option of a parameter file, and the reason for it."""

    line: int
    text: str
    reason: str


def make_remark(statement: ParameterStatement, text: str, reason: str) -> ParameterRemark:
    """Build a remark on ``text``, an unsupported parameter or option of a statement.

    The remark names the file if the statement is in an included file.
    """
    shown = " ".join(text.rstrip("; \t").split())
    if statement.source:
        shown += f" ({statement.source})"
    return ParameterRemark(statement.line, shown, reason)


@dataclass(slots=True, kw_only=True)
class ParameterRemarks:
    """The remarks on unsupported parameters and options of a parameter file.

    ``unused`` are those without effect here, ``refused`` those that would have an effect.
    """

    unused: list[ParameterRemark] = field(default_factory=list)
    refused: list[ParameterRemark] = field(default_factory=list)

    def note(self, statement: ParameterStatement, text: str, reason: str) -> None:
        """Add a remark on a parameter or option that has no effect."""
        self.unused.append(make_remark(statement, text, reason))

    def refuse(
        self, statement: ParameterStatement, text: str, reason: str = UNKNOWN_OPTION
    ) -> None:
        """Add a remark on a parameter or option that is an error, unless ``text`` is empty."""
        if text:
            self.refused.append(make_remark(statement, text, reason))


def unsupported_parameters_error(
    refused: Sequence[ParameterRemark], effect: str, verb: str
) -> OptionError:
    """Build the error for unsupported parameters of a file: it names the first and counts the rest.

    ``effect`` is the consequence of ignoring them, and ``verb`` the action of the run
    (``capture``).
    """
    first, others = refused[0], len(refused) - 1
    problem = f"{first.text} is not supported: {first.reason}"
    more = (
        f" {others} more in this file {'is' if others == 1 else 'are'} not supported."
        if others
        else ""
    )
    hint = f"{effect}.{more} Remove it, or {verb} without it: --ignore-unsupported (ignore_unsupported)"
    keyword = re.split(r"[\s,;(]", first.text, maxsplit=1)[0]
    return OptionError(problem, where=Where(line=first.line, field=keyword), hint=hint)
