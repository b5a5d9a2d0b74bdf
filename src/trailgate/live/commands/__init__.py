"""The command ``trailgate journal``, and the output of a live capture."""
