"""What made the files that ship with the package."""
