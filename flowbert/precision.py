"""Settings and modes of torch under which vectors change by more than rounding."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from operator import attrgetter

import torch

_BACKENDS = (
    "mkldnn.matmul.fp32_precision",
    "cuda.matmul.fp32_precision",
    "mkldnn.conv.fp32_precision",
    "mkldnn.rnn.fp32_precision",
    "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision",
    "cudnn.allow_tf32",
    "cuda.matmul.allow_fp16_accumulation",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
)
_SETTINGS: dict[str, Callable[[], object]] = {
    "default_dtype": torch.get_default_dtype,
    "float32_matmul_precision": torch.get_float32_matmul_precision,
    **{name: partial(attrgetter(name), torch.backends) for name in _BACKENDS},
}


def precision_settings() -> dict[str, str]:
    """Global settings of torch that change vectors by more than rounding, by name.

    Deterministic algorithms, attention kernels and threads are not among them: they only change the
    order of sums.
    """
    settings = {}
    for name, read in _SETTINGS.items():
        # An older release has fewer; torch reads no legacy name after a newer one was set.
        with suppress(AttributeError, RuntimeError):
            settings[name] = str(read())
    return settings


@contextmanager
def usual_modes() -> Iterator[None]:
    """Compute in full precision and with gradients, also inside of other modes of torch."""
    with ExitStack() as modes:
        modes.enter_context(torch.inference_mode(False))
        modes.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda", "mps"):
            modes.enter_context(torch.autocast(device, enabled=False))
        yield
