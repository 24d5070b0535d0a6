"""One page for a run, and one over several: a file that needs nothing beside it."""
