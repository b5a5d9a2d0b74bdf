"""The process of ``benchmarks.live.sending``: its arguments are port, queue and count."""

from __future__ import annotations

import sys

from benchmarks.live.sending import send

if __name__ == "__main__":
    send(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
