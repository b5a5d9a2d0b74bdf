"""The message formats that Trailgate reads and writes, one package each.

Every package has the same files: `options.py` turns properties into typed options, `reader.py`
parses messages into operations, and `writer.py` (if the format can be published) does the reverse.
Loops over bytes are numba kernels in `kernels.py`, `*_kernels.py` or `kernels/`.
"""
