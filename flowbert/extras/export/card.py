"""README.md of an exported model: metadata for the hub, settings, scores, limits."""

from importlib.resources import files
from typing import Any

import pandas as pd

from flowbert import __version__
from flowbert.data.text_files import user_path
from flowbert.encoders import Embedder
from flowbert.experiments.labels import settings_of
from flowbert.experiments.results import Results
from flowbert.experiments.summary import Summary
from flowbert.maps import Raw
from flowbert.maps.whitening import CAUTION
from flowbert.model import Model
from flowbert.tasks import Record
from flowbert.tasks.measures import METRICS
from flowbert.text_tables import escape_markdown

TEMPLATE = "card.md.jinja"
TEXTS = 256
"""Number of texts whose vectors are compared for verification."""


def model_card(
    model: Model,
    *,
    name: str,
    library: str,
    usage: str,
    method: str,
    difference: float,
    results: Results | None = None,
    license: str | None = None,
) -> str:
    """Text of the README.

    Args:
        model: The exported model.
        name: Folder or name on the hub that the model is loaded from.
        library: Library that opens the export, as the hub names it.
        usage: Instructions, in Markdown.
        method: Name of the method, as in the results.
        difference: Largest difference of a cosine between the export and the model.
        results: Results with scores of the method and of the raw embeddings.
        license: License, as the hub names it.
    """
    from huggingface_hub import ModelCard, ModelCardData

    encoder = model.encoder
    base, described = base_name(encoder), encoder.describe()
    kind = method if model.map is None else model.map_name
    data = ModelCardData(
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=[library, "feature-extraction", "flowbert", kind],
        base_model=base if "/" in base else None,
        license=license,
    )
    reading = {"template": "", "sink_token": "", "corpus": ""} | encoder.columns()
    settings = {
        **settings_of(pd.DataFrame([reading])).iloc[0],
        "encoder": base,
        "revision": described.get("revision"),
        "map": "none" if model.map is None else model.map.text,
    }
    template = (
        files("flowbert.extras.export").joinpath(TEMPLATE).read_text(encoding="utf-8")
    )
    card = ModelCard.from_template(
        data,
        template_str=template,
        name=name,
        method=method,
        settings=settings,
        max_length=described.get("max_length"),
        usage=usage,
        scores=[] if results is None else _scores(results, model, reading, method),
        unit=METRICS["spearman"].unit,
        cell=escape_markdown,
        caution=CAUTION,
        difference=difference,
        texts=TEXTS,
        version=__version__,
    )
    return str(card)


def base_name(encoder: Embedder) -> str:
    """Name of an encoder on the hub, or of its folder."""
    path = user_path(encoder.path)
    return path.name if path.exists() else encoder.path.partition("@")[0]


def find_method(results: Results, model: Model) -> str:
    """Name of the method in results with the encoder and map of a model; empty if missing."""
    text = (model.map or Raw()).text
    for record in _records_of(results, model):
        if record.settings["map"] == text:
            return str(record.columns["method"])
    return ""


def _records_of(results: Results, model: Model) -> list[Record]:
    """Records of the encoder of a model."""
    identity = model.encoder.identity
    return [
        record
        for record in results.records
        if record.settings.get("encoder", {}).get("identity") == identity
    ]


def _scores(
    results: Results, model: Model, reading: dict[str, str], method: str
) -> list[dict[str, Any]]:
    """Scores of a method and of raw with a reading, by task."""
    # Over all pairs of a task, as sentence-transformers and MTEB measure it.
    wanted = pd.Series(reading | {"metric": "spearman", "aggregation": "all"})
    wanted = wanted.drop(["encoder", "corpus"])  # the encoder may have moved
    names = [record.columns["encoder"] for record in _records_of(results, model)]
    rows = results.frame.dropna(subset="value")
    rows = rows[rows["encoder"].isin(names)]
    is_wanted = (rows[wanted.index] == wanted).all(axis=1)
    is_shown = is_wanted & rows["method"].isin(["raw", method])
    scores: list[dict[str, Any]] = Summary(rows[is_shown], {}).scores.to_dict("records")
    return scores
