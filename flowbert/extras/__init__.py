"""Rooms that come off: each imports the core, and the core imports none of them.

The core names what is here as text, and imports it when it is used (``tests/test_rooms.py``).
"""
