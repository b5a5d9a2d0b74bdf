"""HDFS, which has renames and no conditions: files are written under hidden names, and renames decide between two writers."""
