"""The command ``trailgate apply``: its options, its modes ``--follow`` and ``--status``, and how results are printed."""
