"""Apply the operations of a trail to tables: plan the changes in ``effects``, write them in ``targets``, run it all in ``jobs``."""
