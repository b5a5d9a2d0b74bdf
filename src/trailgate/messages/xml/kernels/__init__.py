"""The compiled scanner of XML messages.

numba's cache sees changes of ``scan`` and ``seed`` alone: after a change of another file here, clear the cache.
"""
