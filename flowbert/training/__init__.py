"""What a training run needs beside module and data: its log of figures and its checkpoints."""
