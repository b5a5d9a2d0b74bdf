"""Logdump's commands and its output format, over trail records, without a terminal.

``LogdumpSession`` (``session.py``) is the state of a session and runs command lines. The functions
of ``logdump.commands`` yield results (``results.py``); ``result_output`` and ``record_output``
format these as text in Logdump's form or as JSON. ``OpenTrail`` (``open_trail.py``) reads the file in
chunks of records (``record_chunks.py``), which ``record_tests.py`` selects. ``Conversation`` (``conversation.py``) joins them
for the command ``trailgate logdump``.
"""
