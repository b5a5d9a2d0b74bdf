"""``trailgate warm``: compile all kernels in advance, so that no later command or job has to wait for it.

Without this, a kernel is compiled when a process has used it for some time, and stored in numba's
cache.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from time import perf_counter
from typing import TYPE_CHECKING, Final

import trailgate
from trailgate.terminal.output import progress_bar

if TYPE_CHECKING:
    from trailgate.columnar.compiling import CheckedKernel
    from trailgate.columnar.compiling.checked_kernel import KernelCacheEntry

FEW: Final = 8  # a process is worth its start if it compiles at least this many kernels


def command() -> None:
    """Compile all kernels that have no native loop, and print the folder of the cache."""
    every = list(kernels())
    missing = [kernel for kernel in every if kernel.native is None]
    if len(missing) < len(every):
        print(f"{len(every) - len(missing)} loops are native")
    if missing:
        _warm(missing)


def _warm(missing: Sequence[CheckedKernel]) -> None:
    begin = perf_counter()
    states = _compile([(kernel.function.__module__, kernel.__name__) for kernel in missing])
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


def kernels() -> Iterator[CheckedKernel]:
    """Yield every kernel of Trailgate."""
    from trailgate.columnar.compiling import CheckedKernel

    for name in kernel_modules():
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, CheckedKernel) and value.function.__module__ == name:
                yield value


def kernel_modules() -> list[str]:
    """Return the names of Trailgate's modules that contain kernels to compile.

    They are named ``kernels`` or end with ``_kernels``, or are in ``formats.xml.kernels``.
    """
    every = pkgutil.walk_packages(trailgate.__path__, "trailgate.")
    return [
        module.name
        for module in every
        if module.name.endswith("kernels") or ".kernels." in module.name
    ]


def _compile(names: Sequence[tuple[str, str]]) -> list[KernelCacheEntry]:
    """Compile kernels, or find them in the cache, with one process per core.

    Returns the cache entry of each kernel.
    """
    # Starting a process and importing numba costs a second, so each gets some kernels.
    processes = min(os.cpu_count() or 1, len(names) // FEW)
    if processes < 2:
        return [_kept(*name) for name in names]
    states = []
    context = get_context("spawn")  # fork is unsafe after libraries have started threads
    with (
        ProcessPoolExecutor(processes, context) as pool,
        progress_bar("compiling loops") as progress,
    ):
        for done in as_completed([pool.submit(_kept, *name) for name in names]):
            states.append(done.result())
            if progress is not None:
                progress(len(states), len(names))
    return states


def _kept(module: str, name: str) -> KernelCacheEntry:
    from trailgate.columnar.compiling import CheckedKernel

    kernel = getattr(importlib.import_module(module), name)
    assert isinstance(kernel, CheckedKernel)
    return kernel.cached()
