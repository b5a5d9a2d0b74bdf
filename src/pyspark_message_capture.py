"""Lets Spark find the format ``message_capture`` by its name alone."""

from trailgate.spark.message_files import MessageCaptureSource as DefaultSource

__all__ = ["DefaultSource"]
