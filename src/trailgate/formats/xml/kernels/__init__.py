"""The numba kernels of the XML scanner.

`tables.py` defines the layout of their tables, `scan.py` is the main loop.
"""
