"""``python -m trailgate``: the same program as the command ``trailgate``."""

from __future__ import annotations

from trailgate.cli.main import main

if __name__ == "__main__":
    main()
