"""Publish operations as messages on Spark: the columns of messages, DataFrames, and the format ``trail``."""
