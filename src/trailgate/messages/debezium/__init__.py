"""Change events as Debezium writes them with Kafka Connect's JSON converter: read, and written."""
