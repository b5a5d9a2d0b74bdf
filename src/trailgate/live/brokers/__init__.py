"""Receive messages from brokers, and acknowledge them: STOMP, AMQP 1.0 and Kafka.

A receiver returns windows of messages as record batches; what becomes of them is decided elsewhere.
"""
