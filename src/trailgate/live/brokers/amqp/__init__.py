"""Receive messages by AMQP 1.0: the connection, and the decoding of messages in columns."""
