"""Lightning callbacks: the closed-form baseline, and the STS evaluation of every method beside it."""

from flowbert.callbacks.sts_evaluation import STSEvaluation
from flowbert.callbacks.whitening_baseline import WhiteningBaseline

__all__ = ["STSEvaluation", "WhiteningBaseline"]
