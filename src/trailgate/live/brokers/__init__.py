"""Receive messages from brokers, and acknowledge them: STOMP, AMQP 1.0 and Kafka.

A receiver returns the messages that have arrived together as a *window*, which contains a record
batch. Its caller stores or captures them, and decides when they are acknowledged.
"""
