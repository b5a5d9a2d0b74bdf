"""The numba kernels of the XML scanner.

`names.py` defines the layout of their tables, `scan.py` is the main loop.
"""
