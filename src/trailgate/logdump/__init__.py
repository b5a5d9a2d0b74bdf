"""Logdump's commands and its way of printing, over trail records; knows no terminal."""
