"""What a training run needs beside module and data: its log of figures and its checkpoints."""

from flowbert.training.checkpoints import AtomicCheckpointIO, BestCheckpoint, LastCheckpoint
from flowbert.training.metrics_log import MetricsLog, read_metrics

__all__ = ["AtomicCheckpointIO", "BestCheckpoint", "LastCheckpoint", "MetricsLog", "read_metrics"]
