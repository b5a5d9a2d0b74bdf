"""What messages are received from: a journal of a queue or topic, or a partition of Kafka, read ahead if asked for."""
