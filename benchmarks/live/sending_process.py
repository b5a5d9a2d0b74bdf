"""The process of ``benchmarks.live.sending``: its arguments are protocol, port, queue and count."""

from __future__ import annotations

import sys

from benchmarks.live.sending import send

if __name__ == "__main__":
    send(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
