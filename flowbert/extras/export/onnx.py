"""A model as one ONNX graph: token ids in, embeddings out."""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from tokenizers import Tokenizer
from torch import Tensor, nn

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.template import Template
from flowbert.extras.export.formats import EXPORT_FORMATS, Format
from flowbert.extras.export.plain_encoder import outside, with_template_in_tokenizer
from flowbert.io import read_json, write_json
from flowbert.maps import Flow, Map
from flowbert.model import Model

GRAPH, TOKENIZER = "model.onnx", "tokenizer.json"
_INPUTS = ("input_ids", "attention_mask")


class _Graph(nn.Module):
    """Concatenated readings of one pass, and the map in float32."""

    def __init__(
        self,
        views: Sequence[SentenceEncoder],
        template: Template | None,
        fitted: Map | None,
    ) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([view.read() for view in views])
        self.template = template
        self.parts: list[Map] = []
        if fitted is not None:
            numbers = {
                name: value.float() if isinstance(value, Tensor) else value
                for name, value in fitted.get_state().items()
            }
            self.parts = clone(fitted).set_state(numbers).parts
        flows = [part.flow_ for part in self.parts if isinstance(part, Flow)]
        self.flows = nn.ModuleList(flows).float()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self.template is not None:
            mask = outside(self.template, attention_mask)
            features["special_tokens_mask"] = mask
        views: Any = self.encoder
        output = views[0].backbone(features)
        x = torch.cat([view.pool(output, features) for view in views], 1)
        for part in self.parts:
            x = part.flow_(x)[0] if isinstance(part, Flow) else part._apply(x)
        return x


@EXPORT_FORMATS.register("onnx")
class ONNX(Format):
    """``model.onnx``, and ``tokenizer.json``, which truncates and pads like the model."""

    library = "onnx"
    packages = ("onnx", "onnxscript", "onnxruntime")
    tolerance = 1e-4

    def write(self, model: Model, folder: Path) -> None:
        """Write graph and tokenizer.

        Raises:
            UserError: If the encoder is not a transformer or has a prompt, its views have different
                tokens, or torch cannot export it.
        """
        views: list[Any] = list(getattr(model.encoder, "views", [model.encoder]))
        if not isinstance(views[0], SentenceEncoder):
            raise self.refused(
                f"the encoder {model.encoder.path}", "a transformer alone"
            )
        if views[0].tokenization.prompt:
            raise self.refused(f"the prompt {views[0].template!r}", "no prompt")
        if len({view.backbone_key for view in views}) > 1:
            raise self.refused(
                "views of several passes", "one template, sink_token and max_length"
            )
        template = views[0].tokenization.template_tokens
        views = [with_template_in_tokenizer(view) for view in views]
        encoder = views[0]
        if encoder.backbone.options:
            raise self.refused("8bit, 4bit or a device_map", "an encoder without them")
        tokenizer = encoder.backbone.tokenizer
        saved = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        saved.enable_truncation(encoder.max_length, direction=tokenizer.truncation_side)
        saved.enable_padding(
            pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token
        )
        saved.save(str(folder / TOKENIZER))
        if tokenizer.split_special_tokens:  # which the file cannot say
            content = read_json(folder / TOKENIZER, {"added_tokens": list})
            added = content["added_tokens"]
            content["added_tokens"] = [x for x in added if not x["special"]]
            write_json(folder / TOKENIZER, content)
        example = encoder.tokenize(["a b c", "a"])
        sizes = dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
        shown = logging.root.manager.disable
        logging.disable(logging.WARNING)  # of the exporter
        try:
            with torch.no_grad(), warnings.catch_warnings(action="ignore"):
                program: Any = torch.onnx.export(
                    _Graph(views, template, model.map).to(encoder.device).eval(),
                    tuple(example[name].to(encoder.device) for name in _INPUTS),
                    input_names=_INPUTS,
                    output_names=["sentence_embedding"],
                    dynamic_shapes=(sizes, sizes),
                    dynamo=True,
                    verbose=False,
                )
        except torch.onnx.OnnxExporterError as error:
            network = type(encoder.backbone.network).__name__
            received = f"{network} with {model.encoder.columns()['pooling']}"
            raise self.refused(received, "another network") from error
        finally:
            logging.disable(shown)
        program.save(folder / GRAPH, external_data=False)

    def encode(
        self, folder: Path, sentences: Sequence[str], batch_size: int = 32
    ) -> NDArray[np.float32]:
        """Vectors by onnxruntime, ``(N, k)``."""
        from onnxruntime import InferenceSession

        session = InferenceSession(folder / GRAPH)
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        vectors = []
        for start in range(0, len(sentences), batch_size):
            rows = tokenizer.encode_batch(list(sentences[start : start + batch_size]))
            inputs = [row.ids for row in rows], [row.attention_mask for row in rows]
            vectors += session.run(None, dict(zip(_INPUTS, inputs, strict=True)))
        return np.concatenate(vectors)

    def usage(self, name: str, model: Model) -> str:
        """A few lines of Python."""
        length = model.encoder.describe()["max_length"]
        return f"""\
```python
import onnxruntime
from tokenizers import Tokenizer

folder = "{name}"  # from the hub: folder = huggingface_hub.snapshot_download("{name}")
tokenizer = Tokenizer.from_file(f"{{folder}}/{TOKENIZER}")  # truncates to {length} tokens, and pads
session = onnxruntime.InferenceSession(f"{{folder}}/{GRAPH}")
tokens = tokenizer.encode_batch(["A man rides.", "Nobody rides."])
ids, masks = [t.ids for t in tokens], [t.attention_mask for t in tokens]
(embeddings,) = session.run(None, {{"input_ids": ids, "attention_mask": masks}})
```"""
