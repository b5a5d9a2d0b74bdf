"""Lets Spark find the format ``message_capture`` by its name alone."""

from trailgate.spark.messages import MessageCaptureSource as DefaultSource

__all__ = ["DefaultSource"]
