"""Whoever fits a flow, the same settings give the same weights: fit, evaluate and the library."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from flowbert import modules
from flowbert.cli import main
from flowbert.data.sts import load_task
from flowbert.encoders import SentenceEncoder
from flowbert.methods import flow_fit
from flowbert.store.embedding_store import EmbeddingStore


def test_fit_evaluate_and_the_library_fit_the_same_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = load_task("SAMPLE").sentences()[:400]
    (tmp_path / "corpus.txt").write_text("\n".join(sentences) + "\n")
    fitted: list[modules.FlowModule] = []
    fit_flow = flow_fit.fit_flow

    def watched(*arguments: Any, **options: Any) -> modules.FlowModule:
        fitted.append(fit_flow(*arguments, **options))
        return fitted[-1]

    monkeypatch.setattr(flow_fit, "fit_flow", watched)
    common = ["--encoder.layers", "first_last"]
    corpus = str(tmp_path / "corpus.txt")
    asked = ["--methods", "flow", "--flow", "fit", "--corpus", corpus, "--seeds", "3", "--bootstrap", "0"]
    main(["evaluate", *common, *asked, "--output", str(tmp_path / "results.json")])
    run = ["--data.held_out", "0", "--whitening.shrinkage", "0.1", "--seed", "3"]
    main(["fit", *common, "--corpus", corpus, *run, "--run_dir", str(tmp_path / "run")])
    store = EmbeddingStore(None, SentenceEncoder.from_pretrained("builtin-sample", layers="first_last"))
    fitted.append(fit_flow(store.embeddings(sentences), seed=3))

    saved = load_file(tmp_path / "run" / "model" / "flow.safetensors")
    for module in fitted:
        assert module.flow is not None
        state = module.flow.state_dict()
        assert state.keys() == saved.keys()
        for name, value in saved.items():
            assert torch.equal(state[name], value), name
