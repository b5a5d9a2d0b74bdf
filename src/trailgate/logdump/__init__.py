"""Logdump's commands and its output format, over trail records, without a terminal.

``Session`` holds the state and runs command lines; the functions of ``logdump.commands`` yield
results (``results.py``); ``result_output`` and ``record_output`` format these as text in Logdump's
form or as JSON.
"""
