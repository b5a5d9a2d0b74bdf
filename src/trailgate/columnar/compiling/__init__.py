"""Kernels: loops over arrays that run as native code, compiled by numba, or as plain Python functions.

- ``checked_kernel`` has the decorator ``kernel``: it checks the arguments of every call, and
  chooses how a loop runs.
- ``contracts`` reads a kernel's contract from its annotations.
- ``inner_functions`` has the decorators of functions that kernels call, and the fingerprint of all
  code of a kernel.
- ``available_loops`` finds native loops in ``trailgate/_loops.abi3.so``, which ``make native`` builds
  and a wheel contains, and reads ``TRAILGATE_LOOPS``, which forces one way for all loops.
- ``numba_compiler`` compiles a loop with numba. ``indexes`` and ``llvm_code`` extend numba for it.
"""

from trailgate.columnar.compiling.checked_kernel import INTERPRETED, CheckedKernel, kernel
from trailgate.columnar.compiling.inner_functions import inner, instruction

__all__ = ["INTERPRETED", "CheckedKernel", "inner", "instruction", "kernel"]
