"""The command for BERT-base, word for word, on files in the layouts of the hub."""

import gzip
import shlex
from pathlib import Path

import datasets
import pandas as pd
import pytest

from extras.papers.test_reproduce import write_bert
from flowbert.cli import main
from flowbert.data.sample import sample_corpus
from flowbert.experiments import Results
from flowbert.extras.papers.published import PUBLISHED_TASKS, published

COMMAND = (
    "flowbert reproduce --rows li2020,su2021 --encoder bert-base-uncased --senteval hub"
)
ROOT = Path(__file__).parents[3]
# Few and short, as the network has 12 layers; more than 768, or a flow has no optimum.
SENTENCES = sorted({*sample_corpus()}, key=lambda text: (len(text), text))[:800]
SIZES = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12}
CARD = "---\nlanguage:\n- en\n---\n"
NLI = {
    "stanfordnlp/snli": ("plain_text", "plain_text"),
    "nyu-mll/multi_nli": ("default", "data"),
}


def write_hub(root):
    """MTEB's tasks as ``jsonl.gz``, NLI as ``parquet``, each with its card."""
    half = len(SENTENCES) // 2
    pairs = pd.DataFrame(
        {
            "sentence1": SENTENCES[:half],
            "sentence2": SENTENCES[half:],
            "score": [1 + number % 5 for number in range(half)],
        }
    )
    for task, count in PUBLISHED_TASKS.items():
        name = "stsbenchmark" if task == "STSB" else task.lower()
        folder = root / "mteb" / f"{name}-sts"
        folder.mkdir(parents=True)
        (folder / "README.md").write_text(CARD)
        for split in ("train", "validation", "test") if task == "STSB" else ("test",):
            is_small = task == "SICKR" or split != "test"
            rows = pd.concat([pairs] * (count // half + 1))[
                : half if is_small else count
            ]
            with gzip.open(folder / f"{split}.jsonl.gz", "wt") as file:
                rows.to_json(file, orient="records", lines=True)
    labelled = pd.DataFrame(
        {"premise": SENTENCES[:half], "hypothesis": SENTENCES[half:]}
    )
    for name, (config, folder_name) in NLI.items():
        folder = root / name / folder_name
        folder.mkdir(parents=True)
        parquet = folder / "train-00000-of-00001.parquet"
        labelled.assign(label=0).to_parquet(parquet)
        (root / name / "README.md").write_text(
            f"---\nconfigs:\n- config_name: {config}\n  data_files:\n  - split: train\n"
            f"    path: {folder_name}/train-*\n---\n"
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of few sentences
def test_the_command_of_the_documents(tmp_path, monkeypatch):
    assert COMMAND in (ROOT / "docs/papers.md").read_text().splitlines()
    # Only the feed-forward layers are narrower than those of the published network.
    write_bert(tmp_path / "bert-base-uncased", **SIZES, vocab_size=30522)
    write_hub(tmp_path / "hub")
    load = datasets.load_dataset

    def from_folder(name, *given, **options):
        return load(str(tmp_path / "hub" / name), *given, **options)

    monkeypatch.setattr(datasets, "load_dataset", from_folder)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "copies")
    monkeypatch.chdir(tmp_path)
    main([*shlex.split(COMMAND)[1:], "--quiet", "--output=r.json"])
    table = pd.DataFrame(Results.load("r.json").about["published"])
    assert table.query("task == 'average'")["difference"].isna().all()  # context
    lines = table.query("task == 'STSB'").set_index("row")
    rows = published().query("source in ['li2020', 'su2021']").set_index("id")
    rows = rows[rows["path"] == "google-bert/bert-base-uncased"]
    assert set(lines.index) == set(rows.index)
    rows = rows.loc[lines.index]
    assert lines["ours"].between(-100, 100).all()
    notes = lines["note"].str
    assert notes.contains("bert-base-uncased taken, by its name and its size").all()
    assert notes.contains("SICKR: 400 pairs here, 4927 in SentEval").all()
    merged = notes.contains("STS12, STS13, STS14, STS15, STS16: merged subsets here")
    assert merged.to_list() == rows["aggregation"].ne("all").to_list()
