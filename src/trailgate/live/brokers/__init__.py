"""Receive messages from brokers, and acknowledge them: STOMP, AMQP 1.0 and Kafka.

A receiver only returns windows of messages as record batches; it does not decide what is done with
them.
"""
