"""Masked tokens: choosing them, and predicting them with the layers of a masked language model above an encoder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.notices import transformers_notices_off
from flowbert.seeding import Stream

IGNORED = -100  # label of a position that takes no part in the loss: torch's cross-entropy leaves it out
_MASKED, _RANDOM = 0.8, 0.1  # of the chosen tokens; the rest stays as it is


def mask_features(
    features: dict[str, Tensor],
    tokenizer: Any,
    fraction: float,
    generator: torch.Generator,
    continues: Tensor | None = None,
) -> tuple[dict[str, Tensor], Tensor]:
    """Choose tokens to predict: 80% of them become ``[MASK]``, 10% a random token, 10% stay as they are.

    Special tokens and padding are spared. With ``continues`` whole words are chosen; what becomes of each of their
    tokens is still drawn one by one, as in BERT's own whole-word masking.

    References:
        BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2018).
        https://arxiv.org/abs/1810.04805

    Args:
        features: ``input_ids`` and ``attention_mask`` of shape ``(B, T)``, and what else the encoder reads.
        tokenizer: The tokenizer they came from; it has a mask token.
        fraction: Chance of each token, or word, to be chosen.
        generator: Source of randomness, on the CPU whatever the device of the ids, so that every device masks alike.
        continues: Which tokens belong to the word of the token before them, bool of shape ``(B, T)``; default: none.

    Returns:
        Features with masks, and labels of shape ``(B, T)``: the old id where a token was chosen, else ``IGNORED``.

    Example:
        >>> encoder = SentenceEncoder.from_pretrained("builtin-sample")
        >>> features = encoder.tokenize(["a dog runs"])
        >>> _, labels = mask_features(features, encoder.tokenizer, 1.0, torch.Generator().manual_seed(0))
        >>> (labels == IGNORED).tolist()  # [CLS] and [SEP]
        [[True, False, False, False, False, True]]
    """
    ids = features["input_ids"]
    special = torch.tensor(tokenizer.all_special_ids, device=ids.device)
    maskable = features["attention_mask"].bool() & ~torch.isin(ids, special)
    draw = torch.rand(ids.shape, generator=generator).to(ids.device)
    if continues is not None:
        draw = draw.gather(1, _word_starts(continues))
    chosen = (draw < fraction) & maskable
    fate = torch.rand(ids.shape, generator=generator).to(ids.device)
    random_ids = torch.randint(len(tokenizer), ids.shape, generator=generator).to(ids.device)
    inputs = torch.where(chosen & (fate < _MASKED), tokenizer.mask_token_id, ids)
    inputs = torch.where(chosen & (fate >= _MASKED) & (fate < _MASKED + _RANDOM), random_ids, inputs)
    return {**features, "input_ids": inputs}, torch.where(chosen, ids, IGNORED)


def _word_starts(continues: Tensor) -> Tensor:
    """Position of the first token of each token's word, ``(B, T)``."""
    numbers = torch.arange(continues.shape[1], device=continues.device).expand_as(continues)
    return torch.where(continues, 0, numbers).cummax(dim=1).values


def new_predictor(config: Any, seed: int) -> Any:
    """A masked language model of a configuration with random weights; the global random state stays as it was."""
    with Stream(seed, "network").as_torch():
        return AutoModelForMaskedLM.from_config(config)  # type: ignore[no-untyped-call]


def predictor_above(encoder: SentenceEncoder, seed: int) -> Any:
    """A masked language model around the very backbone that is trained.

    Its prediction layers are those of the checkpoint that the encoder came from; layers that it lacks start at random
    by ``seed``, with the word embeddings tied.

    Raises:
        UserError: If transformers knows no masked language model of this kind.
    """
    backbone: Any = encoder.backbone
    folder = backbone.name_or_path  # where transformers found the weights; empty for a new network
    try:
        if folder and Path(folder).is_dir():
            with transformers_notices_off(), Stream(seed, "network").as_torch():
                model: Any = AutoModelForMaskedLM.from_pretrained(
                    folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False
                )
        else:
            model = new_predictor(backbone.config, seed)
    except ValueError as error:
        raise UserError(
            f"path: received {encoder.path}, of type {backbone.config.model_type!r}, which transformers does not "
            "know as a masked language model; allowed: BERT, RoBERTa, DistilBERT and the like"
        ) from error
    setattr(model, model.base_model_prefix, backbone)
    model.tie_weights()
    return model.train()


def predict_chosen(
    model: Any, encoder: SentenceEncoder, chunks: Sequence[Mapping[str, Tensor]], labels: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Logits and labels of the chosen tokens alone: the prediction layers, half of the work, skip the others.

    Args:
        model: The masked language model above the encoder; its prediction layers treat every position alike.
        encoder: The encoder, which says whether the chunks go through packed.
        chunks: Token features with masks, each ``(b, t)``.
        labels: Wanted ids of each chunk, ``(b, t)``, ``IGNORED`` except at the n chosen tokens of all chunks.

    Shapes:
        results: ``(n, V)`` and ``(n,)``, in the order of the chunks.  b: sentences, t: tokens, V: vocabulary.
    """
    chosen = [label != IGNORED for label in labels]
    wanted = torch.cat([label[mask] for label, mask in zip(labels, chosen, strict=True)])
    if encoder.packs:
        packing = encoder.pack(chunks)
        return _predict(model, packing.inputs(), packing.flatten(chosen)), wanted
    logits = [_predict(model, features, mask) for features, mask in zip(chunks, chosen, strict=True)]
    return torch.cat(logits), wanted


def _predict(model: Any, inputs: Mapping[str, Any], chosen: Tensor) -> Tensor:
    def keep_chosen(_backbone: nn.Module, _inputs: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[chosen].unsqueeze(0)
        return output

    hook = model.base_model.register_forward_hook(keep_chosen)
    try:
        logits: Tensor = model(**inputs, return_dict=True).logits
    finally:
        hook.remove()
    return logits.squeeze(0)
