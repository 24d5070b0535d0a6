"""Whether [CLS] holds the sentence: encoders that never trained it have a vector there that tells little of it."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from flowbert.advice.choice import MAP_SHRINKAGE
from flowbert.advice.criterion import FEWEST, cosines, discriminability, views_of, with_views
from flowbert.calibration import Whitening
from flowbert.data.corpus import Corpus
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.layerwise import LayerwiseEncoder
from flowbert.encoders.pooling import make_pooling
from flowbert.encoders.tokens import begins_with_cls
from flowbert.errors import FlowbertWarning

_ENOUGH = 0.75  # of what the mean over tokens tells; measured in docs/choosing-a-method.md
_SENTENCES = 1000
Views = tuple[Tensor, Tensor]  # vectors of N sentences and of their views, (N, D) each


def holds_sentence(cls: Views, mean: Views) -> bool:
    """Whether [CLS] tells views of a sentence from others' three quarters as well as the mean does, both whitened.

    Args:
        cls: Vectors of the sentences and of their views under pooling ``cls`` of the last layer.
        mean: The same under ``mean``.
    """
    by_cls, by_mean = map(_told_apart, (cls, mean))
    return by_cls > _ENOUGH * by_mean


def cls_holds_sentence(encoder: SentenceEncoder, sentences: Sequence[str], seed: int = 0) -> bool | None:
    """The same from at most 1,000 of some sentences, each encoded twice; None where too few can tell.

    Args:
        encoder: A frozen encoder; its layers and pooling play no role.
        sentences: Sentences as the encoder will see them; only those of four words or more can tell.
        seed: Seed of the draw and of the views.

    Raises:
        ValueError: If the encoder is to be trained.
    """
    if not encoder.frozen:
        raise ValueError("an encoder that is trained; allowed: a frozen one")
    useful = with_views(sentences)
    if not begins_with_cls(encoder.tokenizer):
        return False
    if len(useful) < FEWEST:
        return None
    texts = Corpus.of("", useful).sample(_SENTENCES, seed).sentences
    used = LayerwiseEncoder(
        encoder.backbone, encoder.tokenizer, max_length=encoder.max_length, prompt=encoder.prompt, path=encoder.path
    )
    used.select([(used.layers, make_pooling(pooling)) for pooling in ("cls", "mean")])
    both = (torch.from_numpy(used.encode(each)) for each in (texts, views_of(texts, seed)))
    cls, mean = zip(*(vectors.chunk(2, dim=1) for vectors in both), strict=True)
    return holds_sentence(cls, mean)


def warn_of_cls(
    encoder: object, sentences: Callable[[], Sequence[str]], seed: int = 0, device: torch.device | str = "cpu"
) -> None:
    """Warn if the pooling of a frozen encoder weighs a [CLS] that does not show to hold the sentence.

    Args:
        encoder: The encoder, which is moved to the device if it has to be asked; others need no warning.
        sentences: Gives sentences as the encoder will see them, likewise.
        seed: Seed of the draw and of the views.
        device: Where the encoder runs.
    """
    if not (isinstance(encoder, SentenceEncoder) and encoder.frozen):
        return
    ((_, pooling),) = encoder.settings
    if pooling.cls_weight and cls_holds_sentence(encoder.to(device), sentences(), seed) is False:
        message = f"pooling: {pooling.text} weighs [CLS], which does not show to hold the sentence in this encoder"
        warnings.warn(f"{message}; without cls it is likely better", FlowbertWarning, stacklevel=2)


def _told_apart(vectors: Views) -> float:
    sentences, views = vectors
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowbertWarning)  # few sentences: nothing is kept of this map
        fitted = Whitening(shrinkage=MAP_SHRINKAGE).fit(sentences)
    found = cosines(fitted.transform(sentences), fitted.transform(views))
    with np.errstate(invalid="ignore"):  # constant vectors tell nothing
        return float(np.nan_to_num(discriminability(found)[0]))
