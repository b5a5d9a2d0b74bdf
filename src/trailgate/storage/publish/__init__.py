"""One way to publish: what a run stages becomes visible at once, on a local disk or in a store."""
