"""Logdump's commands and its output format, over trail records, without a terminal.

``LogdumpSession`` (``session.py``) is the state of a session and runs command lines. ``OpenTrail``
(``open_trail.py``) reads the session's file in chunks of records (``record_chunks.py``), and the
tests of ``record_tests.py`` select some of them. The functions of ``logdump.commands`` yield results
(``results.py``); ``result_output`` and ``record_output`` format these as text in Logdump's form or
as JSON. ``Conversation`` (``conversation.py``) joins them for the command ``trailgate logdump``.
"""
