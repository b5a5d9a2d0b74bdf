"""A receiver for AMQP 1.0."""
