"""The numba kernels of the XML scanner.

`tables.py` defines the layout of their tables, `scan.py` is the main loop. It reads tags (`tags.py`)
with their names (`names.py`), and text (`text.py`), chooses states by predicates (`predicates.py`),
and writes match records (`match_records.py`). `cells.py` makes columns of those. `cutting.py` finds
where to cut a long message, and `expat_faults.py` finds the fault of a malformed one.
"""
