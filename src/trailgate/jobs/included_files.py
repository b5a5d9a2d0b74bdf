"""Supply what a parameter file takes from its machine: the files that OBEY and INCLUDE name, and values of @GETENV."""

from __future__ import annotations

import getpass
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trailgate.errors import OptionError, Where
from trailgate.expressions.environment_items import OS_VARIABLE
from trailgate.expressions.values import GetenvValues
from trailgate.storage.files.addresses import address_exists, is_absolute
from trailgate.storage.files.text_files import read_text_file

if TYPE_CHECKING:
    from trailgate.definitions.parameter_macros import ReadFile

HINT: Final = "Relative paths are searched in the working directory, in the folder of the parameter file, and in the folder above that"


def include_reader(path: str) -> ReadFile:
    """Return a reader of the files that OBEY and INCLUDE name in the parameter file ``path``.

    GoldenGate resolves relative paths from its home, which is the folder above dirprm.
    """

    def read(name: str) -> str:
        path_of_file = find_parameter_file(path, name)
        if not address_exists(path_of_file):
            raise OptionError(f"there is no file {name}", hint=HINT)
        try:
            # Some editors write a byte order mark, which this removes.
            return read_text_file(path_of_file, "parameter file").decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise not_utf8_error(error, path_of_file) from None

    return read


def not_utf8_error(error: UnicodeDecodeError, path: str) -> OptionError:
    """Build the error for an included parameter file that is not UTF-8, with the line of its first wrong byte."""
    line = error.object.count(b"\n", 0, error.start) + 1
    problem = f"byte {error.object[error.start]:#04x} is not UTF-8"
    where = Where(source=path, line=line, offset=error.start)
    return OptionError(problem, where=where, hint="Save the file as UTF-8")


def find_parameter_file(path: str, name: str) -> str:
    """Return the path of the file ``name``, which the parameter file ``path`` names.

    If no such file exists, returns the name itself.
    """
    return next((one for one in _candidates(path, name) if address_exists(one)), name)


def _candidates(path: str, name: str) -> Iterator[str]:
    yield name
    if is_absolute(name):
        return
    folder = path.rpartition("/")[0]
    yield f"{folder}/{name}" if folder else name
    yield f"{folder}/../{name}" if folder else f"../{name}"


def add_machine_items(around: GetenvValues, items: Collection[tuple[str, str]]) -> GetenvValues:
    """Look up the items of @GETENV that a parameter file uses on this machine, such as its host name, and add them to ``around``.

    ``items`` are pairs of group and item. Items that no expression uses stay empty, so that runs on
    different machines are equal.
    """
    known = dict(around.variables)
    names = sorted(item for group, item in items if group == OS_VARIABLE and item not in known)
    variables = ((name, os.environ[name]) for name in names if name in os.environ)
    around = replace(around, variables=(*around.variables, *variables))
    if ("GGENVIRONMENT", "HOSTNAME") in items:
        around = replace(around, host=os.uname().nodename)
    if ("GGENVIRONMENT", "OSUSERNAME") in items:
        around = replace(around, user=getpass.getuser())
    return around
