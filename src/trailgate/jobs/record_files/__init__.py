"""Files of fixed-width records to Arrow and to Parquet."""
