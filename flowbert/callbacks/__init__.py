"""Lightning callbacks: the closed-form baseline, the STS evaluation of every method beside it, how each step went."""

from flowbert.callbacks.step_log import StepLog
from flowbert.callbacks.sts_evaluation import STSEvaluation
from flowbert.callbacks.whitening_baseline import WhiteningBaseline

__all__ = ["STSEvaluation", "StepLog", "WhiteningBaseline"]
