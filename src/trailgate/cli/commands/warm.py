"""``trailgate warm``: compile all loops ahead, so that no later command or job waits for it."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from time import perf_counter

import trailgate
from trailgate.columnar.kernels.compiled import Kernel


def command() -> None:
    """Compile all loops for this machine, and print where they are kept."""
    begin = perf_counter()
    states = [kernel.cached() for kernel in kernels()]
    seconds = perf_counter() - begin
    compiled = sum(not state.hit for state in states)
    print(
        f"{len(states)} loops: {compiled} compiled in {seconds:.1f} s, "
        f"{len(states) - compiled} found compiled"
    )
    folders = {state.folder for state in states if state.folder}
    if folders:
        print(f"cache: {os.path.commonpath(folders)}")
    else:
        print("cache: none; set NUMBA_CACHE_DIR to a folder that can be written")


def kernels() -> Iterator[Kernel]:
    """Yield every kernel: they are in modules named ``kernels`` or ``..._kernels``, or in ``columnar.kernels``."""
    for name in kernel_modules():
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, Kernel) and value.function.__module__ == name:
                yield value


def kernel_modules() -> list[str]:
    """Return the names of the modules that have kernels, by their names."""
    every = pkgutil.walk_packages(trailgate.__path__, "trailgate.")
    return [
        module.name
        for module in every
        if module.name.endswith("kernels") or ".kernels." in module.name
    ]
