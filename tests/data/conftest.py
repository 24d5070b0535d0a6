"""Folders in the layouts of data sets."""

import pytest


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def senteval(tmp_path):
    """A SentEval folder with STS13, STSB and SICK; unscored pairs and further fields in it."""
    for name in ("FNWN", "headlines", "OnWN"):
        folder = tmp_path / "STS" / "STS13-en-test"
        pairs = (
            f"{name}  one.\tThe \u2028first .",
            "Two.\tNo score.",
            '"Quoted.\tThird."',
        )
        write(folder / f"STS.input.{name}.txt", *pairs)
        write(folder / f"STS.gs.{name}.txt", "5.000", "", "0.5")
    for count, split in enumerate(("train", "dev", "test"), start=1):
        rows = [f"g\tf\t2012\t{i}\t{i}.5\t{split} {i}\tsecond" for i in range(count)]
        rows += ["g\tf\t2\t3\t5\ta\tb\tsource\tlicence", "g\tf\t2\t3\t\tunscored\tb"]
        write(tmp_path / "STS" / "STSBenchmark" / f"sts-{split}.csv", *rows)
    for file in ("train", "trial", "test_annotated"):
        rows = [
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
            "1\tA  boy\tA girl\t3.4\tNEUTRAL",
            f"2\tX {file}\tY\t1\tENTAILMENT",
            f"3\tX {file}\tZ\t2\tCONTRADICTION",
        ]
        write(tmp_path / "SICK" / f"SICK_{file}.txt", *rows)
    return tmp_path


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """Copies that ``datasets`` makes of local folders go into a folder of the test."""
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub-cache")
