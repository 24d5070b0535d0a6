"""What makes a CPU fast: opt-in, behind one switch."""
