"""A receiver for Kafka."""
