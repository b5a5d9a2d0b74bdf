"""The compiled loops over JSON text.

numba's cache sees changes of the file that a kernel is in alone: after a change of ``strings`` or ``names``, clear the cache.
"""
