"""A receiver for STOMP 1.2."""
