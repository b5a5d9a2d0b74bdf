"""Accounts of stores whose login the environment states: how an address and the variables of a cloud's own tools are obeyed together."""
