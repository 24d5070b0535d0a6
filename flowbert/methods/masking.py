"""Masked tokens: their choice, and their prediction by a model around the trained encoder."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.checkpoint import load_model
from flowbert.encoders.folders import locate, quiet
from flowbert.encoders.pooling import TokenFeatures
from flowbert.errors import UserError
from flowbert.methods.losses import Losses
from flowbert.seeding import Stream

IGNORED = -100
"""Label of a position that the loss ignores."""

MASK_FRACTION = 0.15
"""Default share of the tokens to predict."""

_MASKED, _RANDOM = 0.8, 0.1  # of the chosen tokens; the others stay


def mask_tokens(
    ids: Tensor,
    tokenizer: Any,
    fraction: float,
    generator: torch.Generator,
    continues: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose tokens to predict: 80% of them become the mask token, 10% a random one, 10% stay.

    For whole words, transformers' collator only has the mask token; BERT also uses the other two.

    References:
        BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding
        (Devlin et al., 2018). https://arxiv.org/abs/1810.04805

    Args:
        ids: Token ids, ``(B, T)``; special tokens and padding are never chosen.
        tokenizer: The tokenizer.
        fraction: Probability that a token, or a word, is chosen.
        generator: Generator on the CPU, so that masks are the same on all devices.
        continues: Whether a token belongs to the word of the previous token, ``(B, T)``, to choose
            whole words; None to choose tokens.

    Returns:
        Masked ids, and labels ``(B, T)``: the old id of a chosen token, else ``IGNORED``.
    """
    draws = torch.rand((2, *ids.shape), generator=generator)
    random_ids = torch.randint(len(tokenizer), ids.shape, generator=generator)
    choice, fate = draws.to(ids.device, non_blocking=True)
    if continues is not None:
        positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        starts = positions.masked_fill(continues, 0).cummax(dim=1).values
        choice = choice.gather(1, starts)
    chosen = choice < fraction
    for special in tokenizer.all_special_ids:  # a tensor of them would be copied
        chosen = chosen & (ids != special)
    is_random = chosen & (fate >= _MASKED) & (fate < _MASKED + _RANDOM)
    masked = torch.where(chosen & (fate < _MASKED), tokenizer.mask_token_id, ids)
    masked = torch.where(
        is_random, random_ids.to(ids.device, non_blocking=True), masked
    )
    return masked, torch.where(chosen, ids, IGNORED)


def predictor_above(encoder: SentenceEncoder, seed: int) -> tuple[Any, bool]:
    """A masked language model around the network of an encoder.

    Its prediction layers come from the folder of the encoder; missing layers start at random, with
    tied word embeddings.

    Returns:
        The model, and whether any layer starts at random.

    Raises:
        UserError: If transformers has no masked language model for this network, or the tokenizer
            has no mask token.
    """
    from transformers import AutoModelForMaskedLM

    backbone = encoder.backbone
    network: Any = backbone.network
    if backbone.tokenizer.mask_token_id is None:
        raise UserError(
            f"received {encoder.path!r}, whose tokenizer has no mask token",
            argument="encoder",
        )
    starts_at_random = True
    with quiet(), Stream(seed, "network").torch():
        try:
            if encoder.path:
                files = locate(encoder.path, backbone.revision)
                model, report = load_model(AutoModelForMaskedLM, files, "float32")
                network_prefix = f"{model.base_model_prefix}."
                starts_at_random = not all(
                    name.startswith(network_prefix) for name in report["missing_keys"]
                )
            else:
                model = AutoModelForMaskedLM.from_config(network.config)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise UserError(
                f"received {encoder.path!r} of type {network.config.model_type!r}; "
                "expected a masked language model such as BERT",
                argument="encoder",
            ) from error
    setattr(model, model.base_model_prefix, network)
    model.tie_weights()
    return model.train(), starts_at_random


def masked_losses(
    module: Any, chunks: Sequence[TokenFeatures], stream: Stream, weight: float
) -> Losses:
    """Mask tokens and predict them: cross-entropy in nats, and accuracy.

    Args:
        module: Module with ``encoder``, ``predictor`` (see :func:`predictor_above`), ``continuing``
            (ids of tokens that are not the first of their word, to choose whole words, or None)
            and ``mask_fraction``.
        chunks: Token features, each ``(b, t)``.
        stream: Random numbers of the masks.
        weight: Weight of the cross-entropy.

    Returns:
        Losses for :meth:`EncoderModule.batch_losses`; 0 with a gradient if no token was chosen.
    """
    tokenizer = module.encoder.backbone.tokenizer
    fraction = module.mask_fraction or MASK_FRACTION
    generator = stream.generator()
    masked, labels = [], []
    for chunk in chunks:
        ids, continues = chunk["input_ids"], None
        if module.continuing is not None:
            continues = torch.isin(ids, module.continuing)
        ids, label = mask_tokens(ids, tokenizer, fraction, generator, continues)
        masked.append({**chunk, "input_ids": ids})
        labels.append(label)
    logits, ids = predict_chosen(module.predictor, masked, labels)
    count = max(len(ids), 1)
    accuracy = (logits.argmax(-1) == ids).sum() / count
    loss = functional.cross_entropy(logits.float(), ids, reduction="sum") / count
    return {"mlm_loss": (weight, loss, count), "mlm_accuracy": (0.0, accuracy, count)}


def predict_chosen(
    predictor: Any,
    chunks: Sequence[TokenFeatures],
    labels: Sequence[Tensor],
) -> tuple[Tensor, Tensor]:
    """Logits ``(n, V)`` and ids ``(n,)`` of the chosen tokens.

    n: chosen tokens, V: vocabulary.
    """
    # An accelerator is waited for here, not at each use of a mask and its gradient.
    places = [(label != IGNORED).nonzero(as_tuple=True) for label in labels]
    ids = torch.cat([label[place] for label, place in zip(labels, places, strict=True)])
    parts = zip(chunks, places, strict=True)
    return torch.cat([_predict(predictor, chunk, place) for chunk, place in parts]), ids


def _predict(
    predictor: Any, inputs: Mapping[str, Any], chosen: tuple[Tensor, ...]
) -> Tensor:
    """Logits of chosen tokens; the prediction layers skip the others."""

    def select(_network: Any, _inputs: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[chosen].unsqueeze(0)
        return output

    hook = predictor.base_model.register_forward_hook(select)
    try:
        logits: Tensor = predictor(**inputs, return_dict=True).logits
    finally:
        hook.remove()
    return logits.squeeze(0)
