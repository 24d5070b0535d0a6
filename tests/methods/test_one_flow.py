"""Whoever fits a flow, the same settings give the same weights: reproduce, evaluate, fit and the library."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from flowbert.cli import main
from flowbert.data.sample import sample_pairs
from flowbert.data.sts import load_task
from flowbert.encoders import SentenceEncoder
from flowbert.methods import flow
from flowbert.modules import FlowModule
from flowbert.store.embedding_store import EmbeddingStore

ROW = "li2020-2-bert-base-uncased-flow-target"


@pytest.fixture
def senteval(tmp_path: Path) -> Path:
    """A folder laid out as SentEval's, with a small STS16."""
    folder = tmp_path / "senteval" / "STS" / "STS16-en-test"
    folder.mkdir(parents=True)
    names = ("answer-answer", "headlines", "plagiarism", "postediting", "question-question")
    for number, name in enumerate(names):
        pairs = sample_pairs("test")[40 * number : 40 * number + 40]
        (folder / f"STS.input.{name}.txt").write_text("".join(f"{a}\t{b}\n" for a, b, _ in pairs))
        (folder / f"STS.gs.{name}.txt").write_text("".join(f"{score}\n" for *_, score in pairs))
    return tmp_path / "senteval"


def test_reproduce_evaluate_fit_and_the_library_fit_the_same_flow(
    senteval: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[FlowModule] = []
    asked: list[dict[str, Any]] = []
    fit_flow = flow.fit_flow

    def watched(embeddings: Any, **options: Any) -> FlowModule:
        asked.append(options)
        fitted.append(fit_flow(embeddings, **options))
        return fitted[-1]

    monkeypatch.setattr(flow, "fit_flow", watched)
    measured = ["--senteval", str(senteval), "--tasks", "STS16", "--seeds", "3", "--bootstrap", "0"]
    chosen = ["--rows", ROW, "--encoder.path", "builtin-sample"]
    main(["reproduce", *chosen, *measured, "--output", str(tmp_path / "reproduced.json")])
    settings = {name: value for name, value in asked[0].items() if name not in ("seed", "accelerator")}
    assert (settings["mixing"], settings["noise"], settings["epochs"], asked[0]["seed"]) == ("reverse", 0.0, 1.0, 3)

    common = ["--encoder.layers", "first_last", "--encoder.max_length", "64"]
    method = ":".join(["flow", *(f"{name}={value}" for name, value in settings.items())])
    main(["evaluate", *common, *measured, "--methods", method, "--output", str(tmp_path / "results.json")])

    sentences = load_task("STS16", str(senteval)).sentences()
    (tmp_path / "corpus.txt").write_text("\n".join(sentences) + "\n")
    data = ["--corpus", str(tmp_path / "corpus.txt"), "--data.held_out", "0", "--seed", "3"]
    data += ["--data.batch_size", str(settings.pop("batch_size")), "--data.start_size", str(settings.pop("start_size"))]
    data += ["--trainer.max_epochs", str(int(settings.pop("epochs"))), "--whitening.shrinkage", "0.1"]
    model = [word for name, value in settings.items() for word in (f"--model.{name}", str(value))]
    main(["fit", *common, *data, *model, "--run_dir", str(tmp_path / "run")])

    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last", max_length=64)
    watched(EmbeddingStore(None, encoder).embeddings(sentences), **asked[0])

    assert len(fitted) == 3
    saved = load_file(tmp_path / "run" / "model" / "flow.safetensors")
    for module in fitted:
        assert module.flow is not None
        state = module.flow.state_dict()
        assert state.keys() == saved.keys()
        for name, value in saved.items():
            assert torch.equal(state[name], value), name
