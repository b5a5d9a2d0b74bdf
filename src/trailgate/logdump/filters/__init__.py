"""The filters of a session, and the tests of records that they make."""
