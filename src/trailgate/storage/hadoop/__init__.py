"""Clusters of Hadoop: how a namenode is asked, what its refusals mean, and its files as pyarrow reads them."""
