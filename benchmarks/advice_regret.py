"""What the adviser's choice costs against the best setting chosen with labels: Spearman x 100, by encoder.

The scores of all settings come from `evaluate`; the advice is made here, from the sentences of the tasks alone.
Prints one Markdown table.

    python train.py evaluate --encoder.path A,B --encoder.layers embedding_last,first_last,last \
        --encoder.pooling mean,idf:exponent=0.5,idf,cls --methods raw,standardization,whitening,... \
        --tasks STSB,SICKR --split dev,test --senteval DIR --bootstrap 0 --output scores.json
    python benchmarks/advice_regret.py --encoder A B --scores scores.json --senteval DIR
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from flowbert import advise, load_task
from flowbert.advice.choice import Advice
from flowbert.evaluation.results import Row, load_results

TASKS = ("STSB", "SICKR")
Setting = tuple[str, str, str]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Regret of the adviser's choice.")
    parser.add_argument("--encoder", required=True, nargs="+", help="encoders, as in the scores")
    parser.add_argument("--scores", required=True, help="results.json of evaluate: all settings")
    parser.add_argument("--senteval", required=True, help="folder laid out as SentEval's data/downstream")
    parser.add_argument("--seeds", default=3, type=int, help="draws of sentences and views (default 3)")
    parser.add_argument("--store_dir", default=None, help="embedding cache; default: ~/.cache/flowbert")
    return parser.parse_args()


def scores(rows: list[Row], encoder: str, split: str) -> dict[Setting, float]:
    """Mean over the tasks of the Spearman correlation x 100, by layers, pooling and map."""
    found: dict[Setting, list[float]] = {}
    for row in rows:
        pooling = row.pooling.partition(" of ")[0]
        if (row.encoder, row.split, row.aggregation) != (encoder, split, "wmean"):
            continue
        if pooling != "cls" or row.layers == "last":
            found.setdefault((row.layers, pooling, row.method), []).append(100 * row.spearman)
    return {setting: fmean(values) for setting, values in found.items()}


def advised(advice: Advice) -> Setting:
    """The advised setting."""
    return advice.best.layers, advice.best.pooling, advice.best.method


def regret(found: Mapping[Setting, float], setting: Setting) -> str:
    """Best score, and what the setting lacks of it."""
    best = max(found, key=found.__getitem__)
    return f"{found[best]:.2f} ({', '.join(reversed(best))}) | {found[best] - found[setting]:.2f}"


def main() -> None:
    """Print the table."""
    arguments = parse_arguments()
    rows, _ = load_results(arguments.scores)
    tasks = [load_task(name, arguments.senteval) for name in TASKS]
    sentences = [text for task in tasks for text in task.sentences()]
    print("| encoder | advised | sure | best, dev | regret | best, test | regret |\n|---|---|---|---|---:|---|---:|")
    with TemporaryDirectory() as folder:
        corpus = Path(folder) / "sentences.txt"
        corpus.write_text("\n".join(" ".join(text.split()) for text in sentences) + "\n", encoding="utf-8")
        for encoder in arguments.encoder:
            for seed in range(arguments.seeds):
                found = advise(encoder, str(corpus), seed=seed, store_dir=arguments.store_dir)
                dev, test = (regret(scores(rows, encoder, split), advised(found)) for split in ("dev", "test"))
                sure = "yes" if not any(candidate.tied for candidate in found.candidates) else "no"
                print(f"| {encoder} | {found.best.label} | {sure} | {dev} | {test} |", flush=True)


if __name__ == "__main__":
    main()
