"""The command ``trailgate apply``: its options, its ways to run, and how results are printed."""
