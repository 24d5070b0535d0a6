"""Heads that are maps: fitted before the first step, again where wanted, never trained."""

from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import Callback

from fits import EveryBatch, differences, fit, tensors
from flowbert.encoders import SentenceEncoder
from flowbert.maps import make_map
from flowbert.methods.heads import AffineHead
from flowbert.methods.simcse import SimCSEModule
from helpers import refused
from texts import examples, small_network, text_data

HEAD = "whitening:shrinkage=0.3"
LOW_RANK = "nulling-2+whitening"  # has fewer dimensions than its parts say


def make(**options):
    """A small encoder's module, and data of five batches an epoch."""
    encoder = SentenceEncoder(small_network("bert"), frozen=False)
    given: dict[str, Any] = {"head": HEAD, "learning_rate": 1e-2} | options
    module = SimCSEModule(encoder, **given)
    return module, text_data(encoder, examples(positive="crop", size=20), batch_size=4)


def rows(count=300, dim=16):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(count, dim)) * rng.gamma(2, size=dim) + 3).astype("f4")


CHAINS = ["whitening-8", "nulling-2+whitening-8+zca", LOW_RANK]


@pytest.mark.filterwarnings("ignore:whitening. the covariance")
@pytest.mark.parametrize("head", CHAINS)
def test_is_the_map_in_float32(head):
    x, made = rows(), AffineHead(head, 16).fit(rows())
    fitted = make_map(head).fit(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mapped = made(torch.from_numpy(x).bfloat16().view(2, -1, 16))
    assert mapped.dtype == torch.float32
    expected = fitted.transform(torch.from_numpy(x).bfloat16().double())
    # Sums of products of float32 numbers, around a mean of 3.
    torch.testing.assert_close(
        mapped.flatten(0, 1), expected.float(), rtol=1e-3, atol=1e-3
    )


class Record(Callback):
    """The head in each batch, and the map of the encoder before it."""

    def __init__(self):
        self.used = []
        self.fresh = []

    def on_train_batch_start(self, trainer, pl_module, *_):
        data = trainer.datamodule
        vectors = pl_module.encoder.encode(sorted(data.examples.columns[0]))
        self.fresh.append(AffineHead(HEAD, 16).fit(vectors).weight)

    def on_train_batch_end(self, _, pl_module, *__):
        self.used.append(pl_module.head.weight.clone())


@pytest.mark.parametrize(
    ("every", "accumulate", "fits"),
    [(None, 1, [0] * 5), (2, 1, [0, 0, 2, 2, 4]), (1, 2, [0, 0, 2, 2, 4])],
)
def test_is_fitted_before_the_first_step_and_every_so_many(
    every, accumulate, fits, tmp_path
):
    module, data = make(head_refit_every=every)
    record = Record()
    options: dict[str, Any] = {"accumulate_grad_batches": accumulate}
    options["limit_val_batches"] = 0
    fit(tmp_path, record, module=module, data=data, max_epochs=1, **options)
    for batch, fitted in enumerate(fits):
        used, fresh = record.used[batch], record.fresh[fitted]
        # Eigenvectors of the same sentences in another order.
        torch.testing.assert_close(used @ used.T, fresh @ fresh.T, rtol=1e-3, atol=1e-3)
        assert torch.equal(used, record.used[fitted])
    changed = record.fresh[0] @ record.fresh[0].T - record.fresh[2] @ record.fresh[2].T
    assert float(changed.abs().max()) > 0.01


@pytest.mark.filterwarnings("ignore:whitening")
@pytest.mark.parametrize(
    ("head", "every", "accumulate"), [(HEAD, None, 1), (HEAD, 1, 2), (LOW_RANK, 1, 1)]
)
def test_a_resumed_fit_ends_like_the_whole(head, every, accumulate, tmp_path):
    def run(*callbacks, **options):
        given: dict[str, Any] = {"head": head, "head_refit_every": every}
        module, data = make(**given, schedule="constant", warmup=0.0)
        options |= {"max_epochs": 1, "limit_val_batches": 0}
        options |= {"accumulate_grad_batches": accumulate}
        return fit(tmp_path, *callbacks, module=module, data=data, **options)

    whole = run(EveryBatch(tmp_path))
    assert {"head.weight", "head.bias"} < tensors(whole).keys()
    for batch in (1, 2):  # with accumulation at a step, and between two
        file = tmp_path / f"batch-{batch:02}.ckpt"
        assert differences(whole, run(ckpt_path=file)) == [], batch


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("whitning", "received 'whitning'; .*did you mean 'whitening'"),
        ("flow", "received 'flow'; expected mlp_train_only, mlp, none, "),
        ("whitening-999", "whitening-999: n_components: received 999"),
    ],
)
def test_other_heads_are_refused(head, message):
    refused(f"^head: {message}", make, head=head)


@pytest.mark.filterwarnings(
    "ignore:whitening. (the covariance|7 directions):flowbert.errors.FlowbertWarning"
)
def test_an_undefined_map_is_refused(tmp_path):
    module, _ = make(head="whitening")
    data = text_data(module.encoder, examples(size=8, positive="crop"))
    refused(
        r"^head: whitening of N=8 distinct sentences",
        fit,
        tmp_path,
        module=module,
        data=data,
        max_epochs=1,
    )
