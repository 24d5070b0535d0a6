"""The embedding store: each distinct sentence encoded once, kept in checked shards."""
