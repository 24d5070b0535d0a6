"""Advice on layers, pooling and map of an encoder: a rule that reads its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flowbert.data.corpus import check_corpus_exists
from flowbert.encoders import Embedder, EncoderOptions, SentenceEncoder, open_encoder
from flowbert.encoders.layers import name_layers, resolve_layers
from flowbert.encoders.pooling import make_pooling
from flowbert.encoders.template import TEMPLATES, name_template
from flowbert.errors import UserError
from flowbert.experiments.commands import write_command
from flowbert.experiments.plan import RECIPE_METHOD, Method
from flowbert.extras.sentence_transformer import SentenceTransformerEncoder
from flowbert.maps import make_map
from flowbert.maps.whitening import CAUTION
from flowbert.options import AdviseOptions, takes

RECIPE_LAYERS = "embedding_last"
RECIPE_POOLING = "zipf"

DECODER_TEMPLATE = "prompteol"
DECODER_METHOD = "whitening:shrinkage=0.8"
"""Template and map for decoders; measured in docs/research/decoders.md."""

_SENTENCES = "SENTENCES.txt"
_BY_SENTENCE_TRANSFORMERS = (
    "This folder was written by sentence-transformers. Such models are trained for similarity; "
    "with much data, a map or a training without labels makes them worse."
)
_BY_OTHERS = (
    "This folder was not written by sentence-transformers, so the encoder is treated as not "
    "trained for similarity."
)
_OF_LEARNED_WEIGHTS = (
    "The token weights of this encoder were trained, for its own layers and pooling."
)
_OF_DECODERS = (
    "This network is a decoder: a token reads those before it alone. A template that asks for one "
    "word makes the last token a vector of the sentence in the last layer; without a template, try "
    "the mean in a low layer. The setting is the best of those measured on two decoders, of 135 "
    "and 270 million parameters."
)
_RAW_TEXT = """
There is nothing to fit:

    flowbert {encode}

If its training was short, a map may help. Compare on your own pairs:

    flowbert {compare}"""
_FIT_TEXT = """
Fit, and compare on your own pairs:

    flowbert {fit}
    flowbert {compare}"""
_MAP_TEXT = f"\n{CAUTION}{_FIT_TEXT}"
_DECODER_TEXT = f"""
Two views, this one and the mean of the sentence in a lower layer, may be better, and so may
--encoder.template chat-examples, alone or in both views, where the tokenizer has a chat
template (docs/decoders.md).
--encoder.dtype bfloat16 is faster on processors with AMX or AVX512-BF16 and on GPUs. A sentence
and its template are cut to {{length}} tokens (--encoder.max_length).{_FIT_TEXT}"""


@dataclass(frozen=True)
class Advice:
    """Recommended layers, pooling and map for an encoder, with the reason and the next commands.

    Attributes:
        reason: Reason of the recommendation.
        layers: Recommended layers.
        pooling: Recommended pooling.
        method: Recommended map.
        template: Recommended template; empty for no template.
        commands: The next commands.
    """

    reason: str
    layers: str
    pooling: str
    method: str
    template: str = ""
    commands: str = ""

    def __str__(self) -> str:
        template = f", template {self.template}" if self.template else ""
        return (
            f"{self.reason}\n\nUse {self.method}, layers {self.layers}, pooling {self.pooling}"
            f"{template}.{self.commands}"
        )


@takes(AdviseOptions)
def advise(options: AdviseOptions) -> Advice:
    """Choose layers, pooling and map for an encoder, without labels.

    A sentence-transformers folder keeps its layers and pooling, without a map. An encoder with
    learned token weights keeps its layers and pooling, with the map of the recipe. A decoder gets a
    template, the last token and whitening, and any other encoder the recipe.
    docs/choosing-a-method.md has measurements of the advice, and its limits.

    Args:
        options: Fields of :class:`flowbert.options.AdviseOptions`, as arguments.

    Raises:
        UserError: If an argument is wrong.

    Example:
        >>> advice = advise()
        >>> advice.layers, advice.pooling, advice.method
        ('embedding_last', 'zipf', 'whitening:shrinkage=0.3')
    """
    encoder, corpus = EncoderOptions.of(options.encoder), options.corpus
    if isinstance(corpus, str | Path):
        check_corpus_exists(corpus)
    else:
        corpus = _SENTENCES
    opened = open_encoder(encoder, device=options.device)
    advice = advise_encoder(opened)
    is_named = isinstance(encoder, EncoderOptions)
    chosen = given = _changed(vars(encoder) if is_named else opened.describe())
    if isinstance(opened, SentenceEncoder):
        chosen = given | {"layers": advice.layers, "pooling": advice.pooling}
    text, methods, compared = _MAP_TEXT, "raw,advised", given
    if advice.method == "raw":
        text, methods, compared = _RAW_TEXT, f"raw,{RECIPE_METHOD}", chosen
    if advice.template:
        chosen |= {"template": advice.template}
        text = _DECODER_TEXT
    pairs = options.nli if corpus == "nli" else None
    on = {"corpus": corpus, "nli": pairs, "column": options.column}
    files = {"input": _SENTENCES, "output": "vectors.npy"}
    compare = {"methods": methods, "encoder": compared, **on, "tasks": "PAIRS.csv"}
    fit = {"method": advice.method, "encoder": chosen, **on, "run_dir": "my-model"}
    commands = text.format(
        encode=write_command("encode", encoder=chosen, **files),
        fit=write_command("fit", **fit),
        compare=write_command("compare", **compare),
        length=getattr(opened, "max_length", None),
    )
    return replace(advice, commands=commands)


def advise_encoder(encoder: Embedder) -> Advice:
    """The advice for an opened encoder, whatever its current layers and pooling.

    Raises:
        UserError: If it is neither an encoder with layers nor a sentence-transformers folder.
    """
    if isinstance(encoder, SentenceTransformerEncoder):
        own = encoder.columns()
        return Advice(_BY_SENTENCE_TRANSFORMERS, own["layers"], own["pooling"], "raw")
    if not isinstance(encoder, SentenceEncoder):
        raise UserError(
            f"received {encoder.path}; expected a transformer", argument="encoder"
        )
    folder = encoder.backbone.folder
    pooling = folder.reading["pooling"]
    depth = encoder.num_layers
    layers = name_layers(resolve_layers(folder.reading["layers"], depth), depth)
    if folder.by_sentence_transformers:
        return Advice(_BY_SENTENCE_TRANSFORMERS, layers, pooling, "raw")
    if make_pooling(pooling).learned:
        return Advice(_OF_LEARNED_WEIGHTS, layers, pooling, RECIPE_METHOD)
    if encoder.backbone.findings.causal:
        template = name_template(
            encoder.template or TEMPLATES[DECODER_TEMPLATE], encoder.backbone.tokenizer
        )
        return Advice(_OF_DECODERS, "last", "last_token", DECODER_METHOD, template)
    return Advice(_BY_OTHERS, RECIPE_LAYERS, RECIPE_POOLING, RECIPE_METHOD)


def follow_advice(
    methods: Sequence[Method], encoders: Sequence[Embedder]
) -> list[Method]:
    """Give advised methods their map and a reading of each encoder.

    Args:
        methods: The methods.
        encoders: Opened encoders; readings of one backbone get one advice.

    Raises:
        UserError: If no advice exists for an encoder.
    """
    backbones: dict[str, Embedder] = {}
    for encoder in encoders:
        backbones.setdefault(encoder.backbone_key, encoder)
    followed: list[Method] = []
    for method in methods:
        if not method.advised:
            followed.append(method)
            continue
        for encoder in backbones.values():
            advice = advise_encoder(encoder)
            map = make_map(advice.method)
            if isinstance(encoder, SentenceEncoder):
                encoder = encoder.read(
                    layers=advice.layers,
                    pooling=advice.pooling,
                    template=advice.template or None,
                )
            name = f"{method.name}: {advice.method}"
            followed.append(replace(method, name=name, map=map, encoder=encoder))
    return followed


def _changed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the encoder that differ from the defaults of a command."""
    usual = vars(EncoderOptions(""))
    return {
        name: value
        for name, value in options.items()
        if name not in ("layers", "pooling") and value != usual.get(name, value)
    }
