"""README.md of an exported model: metadata that the hub understands, figures with intervals, how to load it, limits."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flowbert import __version__
from flowbert.encoders.layers import name_layers
from flowbert.evaluation.results import Row
from flowbert.exports.folder import has_native_form
from flowbert.io.hub import is_hub_name, split_revision
from flowbert.methods.embedder import Embedder

_SHOWN = ("all", "wmean")  # of the aggregations of Spearman, which are equal where a task has one subset
_LOAD = {
    "sentence-transformers": """```python
from sentence_transformers import SentenceTransformer

embedder = SentenceTransformer("{name}")
embeddings = embedder.encode(["A man rides.", "Nobody rides."])
print(embedder.similarity(embeddings, embeddings))
```

It needs no other package and no flag{since}.{native}""",
    "onnx": """```python
import onnxruntime
from tokenizers import Tokenizer

folder = "{name}"  # from the hub: folder = huggingface_hub.snapshot_download("{name}")
tokenizer = Tokenizer.from_file(f"{{folder}}/tokenizer.json")  # cuts at {max_length} tokens, and pads
session = onnxruntime.InferenceSession(f"{{folder}}/model.onnx")
tokens = tokenizer.encode_batch(["A man rides.", "Nobody rides."])
given = {{"input_ids": [t.ids for t in tokens], "attention_mask": [t.attention_mask for t in tokens]}}
(embeddings,) = session.run(None, given)
```""",
}


def model_card(
    model: Embedder, *, format: str, method: str, name: str, rows: Sequence[Row], license: str | None = None
) -> str:
    """Text of the README.

    Args:
        model: What is exported.
        format: What it is exported as.
        method: Name of the map.
        name: Where it will be loaded from: a folder, or its name on the hub.
        rows: Figures of it and of the raw embeddings; those of other settings are left out.
        license: Identifier of a license as the hub names it.
    """
    from huggingface_hub import ModelCardData

    base = base_model(model)
    mine = [row for row in rows if _is_of(row, model, method)]
    library = format.removesuffix("-int8")
    data = ModelCardData(
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=[library, "feature-extraction", "flowbert", "unsupervised", method],
        base_model=base if is_hub_name(base) and "/" in base else None,
        license=license,
        model_name=Path(name).name,
        eval_results=_eval_results(mine, method) or None,
    )
    native = f' With flowbert: `flowbert.load("{name}").encode([...])`.' if has_native_form(model) else ""
    since = " (version 5.4 or newer)" if _has_flow(method) else ""
    parts = [
        f"---\n{data.to_yaml()}\n---",
        f"# {Path(name).name}",
        f"Sentence embeddings of the frozen encoder `{base}` after {_what(method)}, fitted without labels by "
        f"flowbert {__version__}. Compare them by cosine.",
        "## Use",
        _LOAD[library].format(name=name, since=since, native=native, max_length=model.encoder.max_length),
        "## Setting",
        _setting(model, base, method, mine),
    ]
    if mine:
        parts += ["## Figures", _figures(mine, method)]
    limits = _limits(model, method)
    if library == "sentence-transformers" and model.encoder.pooling == "cls" and _has_flow(method):
        token = model.encoder.tokenizer.cls_token
        limits += f"\n- Of a text that itself holds `{token}`, the mean over all tokens `{token}` is mapped."
    return "\n\n".join([*parts, "## Limits", limits]) + "\n"


def base_model(model: Embedder) -> str:
    """The encoder as others may know it: its hub name, or the last part of its path."""
    path = model.encoder.path
    name, _ = split_revision(path)
    return name if is_hub_name(name) and not Path(path).exists() else Path(path).name


def _what(method: str) -> str:
    return {"raw": "no further map", "flow": "a normalizing flow (BERT-flow)"}.get(method, f"the map {method}")


def _has_flow(method: str) -> bool:
    return "flow" in method.split("+")


def _is_of(row: Row, model: Embedder, method: str) -> bool:
    """Whether a row is of this encoder's setting, and of the map or of the raw embeddings."""
    same = row.layer_numbers in ((), model.encoder.layers) and row.pooling.split(" of ")[0] == model.encoder.pooling
    return same and row.shown_method.split(":")[0] in ("raw", method) and row.metric == "spearman"


def _setting(model: Embedder, base: str, method: str, rows: Sequence[Row]) -> str:
    encoder = model.encoder
    lines = {
        "encoder": f"`{base}`" + (f", revision {encoder.revision}" if encoder.revision else ""),
        "layers": f"{name_layers(encoder.layers, encoder.num_layers)} (hidden states {list(encoder.layers)}, averaged)",
        "pooling": encoder.settings[0][1].label,
        **({"modules after it": encoder.after_pooling.word} if len(encoder.after_pooling) else {}),
        "tokens": f"at most {encoder.max_length}",
        "map": method if method == "raw" else f"{method}: `{_config(model)}`",
    }
    fitted = next((row for row in rows if row.method != "raw"), None)
    if fitted is not None:
        lines["fitted on"] = f"{fitted.corpus}" + (f", {fitted.fitted} sentences" if fitted.fitted else "")
    return _table(["", ""], [[name, value] for name, value in lines.items()])


def _config(model: Embedder) -> str:
    config = getattr(model.fitted, "config", {})
    return ", ".join(f"{name}={value}" for name, value in config.items())


def _figures(rows: Sequence[Row], method: str) -> str:
    header = ["task", "split", "aggregation", *dict.fromkeys(["raw", method])]
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        if row.aggregation in _SHOWN and (row.aggregation == _SHOWN[0] or len(row.subsets) > 1):
            shown = f"{100 * row.value:.2f}"
            if math.isfinite(row.low):
                shown += f" [{100 * row.low:.1f}, {100 * row.high:.1f}]"
            found.setdefault((row.task, row.split, row.aggregation), {})[row.method.split(":")[0]] = shown
    lines = [[*key, *(by.get(name, "") for name in header[3:])] for key, by in found.items()]
    return (
        "Spearman x 100 of the cosine with the gold score, 95% confidence intervals over pairs in brackets where they "
        f"were computed; `raw` is the same encoder without the map.\n\n{_table(header, lines)}"
    )


def _limits(model: Embedder, method: str) -> str:
    lines = [f"Text beyond {model.encoder.max_length} tokens is cut."]
    if method != "raw":
        lines += [
            "The map was fitted once and is frozen: text unlike what it was fitted on may gain less, or lose.",
            "Such maps help similarity of encoders trained by language modelling alone; encoders fine-tuned for "
            "similarity, and classifiers on top of the vectors, often lose by them.",
        ]
    return "\n".join(f"- {line}" for line in lines)


def _eval_results(rows: Sequence[Row], method: str) -> list[Any]:
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type="semantic-similarity",
            task_name="Semantic Similarity",
            dataset_type=row.task,
            dataset_name=f"{row.task} {row.split}",
            dataset_split=row.split,
            metric_type="spearman_cosine",  # as sentence-transformers calls it
            metric_name=f"Spearman of the cosine, {row.aggregation}",
            metric_value=round(row.value, 4),
        )
        for row in rows
        if row.method.split(":")[0] == method and row.aggregation == _SHOWN[0] and math.isfinite(row.value)
    ]


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
