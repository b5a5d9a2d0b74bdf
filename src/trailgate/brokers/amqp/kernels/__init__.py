"""Loops over the bytes of encoded AMQP messages."""
