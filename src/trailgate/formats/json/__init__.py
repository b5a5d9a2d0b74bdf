"""GoldenGate's JSON messages, and a columnar JSON scanner that Debezium's messages use too."""
