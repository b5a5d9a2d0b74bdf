"""Receive messages by STOMP 1.2: the connection, its frames, and their conversion to columns."""
