"""The message formats that Trailgate reads and writes, one package each.

In each package, `options.py` turns properties into typed options and `reader.py` parses messages
into operations. Formats that can be published also have a writer. Compiled loops over bytes
(kernels) are in `*_kernels.py` or `kernels/`.
"""
