"""Optional packages: each imports the core, and the core imports none of them.

The core names these modules by import path, and imports them when they are used, so that each can
be removed (``tests/test_rooms.py``).
"""
