"""The flow, its noise and its loss are computed in float32 whatever the precision of the trainer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.data import make_data, trainable_encoder
from pytorch_lightning import Trainer
from torch import Tensor

from flowbert.calibration import Whitening
from flowbert.callbacks import STSEvaluation, WhiteningBaseline
from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.flows import Glow
from flowbert.losses.cosreg import mean_pair_cosine
from flowbert.losses.info_nce import InfoNCE
from flowbert.losses.siamese import cosine_loss, softmax_loss, triplet_loss
from flowbert.modules import FlowModule
from flowbert.modules.simcse import SimCSEModule

# All that Lightning knows, but for what needs another package and a GPU, and old names for the same.
ON_CPU = ("16-mixed", "16-true", "32-true", "64-true", "bf16-mixed", "bf16-true")


def _trainer(folder: Path, precision: Any, **options: Any) -> Trainer:
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    return Trainer(accelerator="cpu", devices=1, default_root_dir=folder, precision=precision, **{**quiet, **options})


def _fit(folder: Path, precision: str, store: str) -> tuple[FlowModule, dict[str, float], Sequence[Any], Tensor]:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    data = make_data(
        EmbeddingDataModule,
        encoder,
        corpus="builtin-sample",
        max_sentences=160,
        start_size=64,
        store=store,
        batch_size=32,
    )
    module, evaluation = FlowModule(encoder=encoder, learning_rate=2e-3), STSEvaluation()
    whitening = WhiteningBaseline(shrinkage=0.1)
    trainer = _trainer(folder, precision, max_epochs=1, num_sanity_val_steps=0, callbacks=[evaluation, whitening])
    trainer.fit(module, datamodule=data)
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    return module, logged, evaluation.figures, whitening.transform(data.start_sample())


@pytest.mark.filterwarnings(
    "ignore:.*does not have many workers:UserWarning", "ignore:.*AMP with fp16 is not supported:"
)
@pytest.mark.filterwarnings("ignore:.*logging interval:UserWarning", "ignore:.*float16.*:UserWarning")
@pytest.mark.parametrize("precision", ON_CPU)
def test_fit_is_that_of_float32(precision: str, tmp_path: Path) -> None:
    expected, logged, figures, whitened = _fit(tmp_path, "32-true", "memory")
    module, logged_here, figures_here, whitened_here = _fit(tmp_path, precision, "memory")
    assert torch.equal(whitened, whitened_here)
    exact = precision != "64-true"
    for name, value in expected.state_dict().items():
        here = module.state_dict()[name]
        assert here.dtype in ((value.dtype,) if exact else (value.dtype, torch.float64)), name
        if exact:
            assert torch.equal(here, value), name
    assert logged_here == (logged if exact else pytest.approx(logged, rel=1e-4))
    for first, second in zip(figures, figures_here, strict=True):
        assert first.method == second.method
        assert first.figures.all == pytest.approx(second.figures.all, abs=0 if exact else 1e-4)


@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning", "ignore:.*logging interval:UserWarning")
def test_encoder_inside_the_step_stays_in_its_own_precision(tmp_path: Path) -> None:
    expected, logged, *_ = _fit(tmp_path, "32-true", "none")
    module, here, *_ = _fit(tmp_path, "bf16-mixed", "none")
    assert here == logged
    assert all(torch.equal(module.state_dict()[name], value) for name, value in expected.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_glow_under_autocast_and_after_conversion(dtype: torch.dtype) -> None:
    x = torch.randn(64, 384, generator=torch.Generator().manual_seed(0)) * 2 + 1
    flow = Glow(384, mixing_init="rotation", coupling="affine")
    flow.initialize(x)
    nll, latents, z = flow.nll(x), flow.latents(x), flow(x)[0]
    inverse = flow.inverse(z)[0]
    with torch.autocast("cpu", dtype=dtype):
        assert torch.equal(flow.nll(x), nll)
        assert torch.equal(flow.latents(x), latents)
        assert torch.equal(flow.inverse(z)[0], inverse)
        again = Glow(384, mixing_init="rotation", coupling="affine")
        again.initialize(x)
    for converted in (flow.to(dtype), flow.half(), flow.bfloat16(), torch.nn.Sequential(flow).to(dtype)[0], again):
        assert isinstance(converted, Glow)
        assert torch.equal(converted.nll(x), nll)
    assert flow.nll(x.to(dtype)).dtype == torch.float32


def test_losses_and_maps_under_autocast() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(16, 32, generator=generator) for _ in range(3))
    labels, weight = torch.arange(16) % 3, torch.randn(3, 96, generator=generator)
    whitening = Whitening(shrinkage=0.1).fit(a + b)

    def values() -> list[Tensor]:
        return [
            InfoNCE()(a, b, c),
            softmax_loss(a, b, labels, weight),
            cosine_loss(a, b, torch.zeros(16)),
            triplet_loss(a, b, c),
            mean_pair_cosine(a),
            whitening.transform(a),
        ]

    expected = values()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        here = values()
    for first, second in zip(expected, here, strict=True):
        assert second.dtype == torch.float32
        assert torch.equal(first, second)


@pytest.mark.parametrize("precision", ["bf16-true", "16-true"])
@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning", "ignore:.*logging interval:UserWarning")
def test_an_encoder_is_not_trained_with_weights_in_half_precision(precision: str, tmp_path: Path) -> None:
    data, module = (
        make_data(ContrastiveDataModule, corpus="builtin-sample", max_sentences=32, batch_size=8),
        SimCSEModule(trainable_encoder()),
    )
    with pytest.raises(UserError, match=rf"precision: received {precision}; allowed .*: 32-true, bf16-mixed"):
        _trainer(tmp_path, precision, max_epochs=1).fit(module, datamodule=data)


def test_batches_of_embeddings_are_not_tensors() -> None:
    """A trainer in half precision rounds every tensor of a batch before the module sees it."""
    options: dict[str, Any] = {"corpus": "builtin-sample", "max_sentences": 100, "store": "memory", "batch_size": 32}
    data = make_data(EmbeddingDataModule, SentenceEncoder.from_pretrained("builtin-sample"), **options)
    data.setup("fit")
    for loader in (data.train_dataloader(), *data.val_dataloader(), data.predict_dataloader()):
        batch = next(iter(loader))
        assert isinstance(batch, np.ndarray)
        assert batch.dtype == np.float32
