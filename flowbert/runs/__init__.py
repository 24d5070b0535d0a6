"""Whole runs in one call each: what the command line does, without it."""
