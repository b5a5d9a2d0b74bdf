"""Jobs whose parts Spark runs, one task each; the driver publishes."""
