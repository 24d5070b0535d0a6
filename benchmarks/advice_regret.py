"""What the adviser's choice costs against the best setting chosen with labels: Spearman x 100, by encoder.

The scores of all settings come from `evaluate`; the advice is made here, from the sentences of the tasks alone.
Prints one Markdown table.

    python train.py evaluate --encoder.path A,B --encoder.layers embedding_last,first_last,last \
        --encoder.pooling mean,zipf,zipf:cls=16,idf:exponent=0.5,idf,cls --methods raw,standardization,whitening,... \
        --tasks STSB,SICKR --split dev,test --senteval DIR --bootstrap 0 --output scores.json
    python benchmarks/advice_regret.py --encoder A B --scores scores.json --senteval DIR
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from flowbert import advise, load_task
from flowbert.evaluation.results import Row, load_results

TASKS = ("STSB", "SICKR")
Setting = tuple[str, str, str]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Regret of the adviser's choice.")
    parser.add_argument("--encoder", required=True, nargs="+", help="encoders, as in the scores")
    parser.add_argument("--scores", required=True, nargs="+", help="results of evaluate: together all settings")
    parser.add_argument("--senteval", required=True, help="folder laid out as SentEval's data/downstream")
    parser.add_argument("--seeds", default=1, type=int, help="draws of sentences and views (default 1)")
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


def cells(found: Mapping[Setting, float], advised: Setting) -> str:
    """Score of raw as it is usual, of the advised setting and of the best one; regret without and with cls."""
    best = max((setting for setting in found if setting[1] != "cls"), key=found.__getitem__)
    label = f"{found[best]:.2f} ({best[2]}, {best[1]}, {best[0]})"
    regrets = [found[best] - found[advised], max(found.values()) - found[advised]]
    scored = [found["last", "mean", "raw"], found[advised]]
    return " | ".join([*(f"{x:.2f}" for x in scored), label, *(f"{x:.2f}" for x in regrets)])


def main() -> None:
    """Print the table."""
    arguments = parse_arguments()
    rows = [row for path in arguments.scores for row in load_results(path)[0]]
    tasks = [load_task(name, arguments.senteval) for name in TASKS]
    sentences = [text for task in tasks for text in task.sentences()]
    print("| encoder | seed | split | advised | stable | raw | advised | best | regret | with cls |")
    print("|---|---:|---|---|---|---:|---:|---|---:|---:|")
    with TemporaryDirectory() as folder:
        corpus = Path(folder) / "sentences.txt"
        corpus.write_text("\n".join(" ".join(text.split()) for text in sentences) + "\n", encoding="utf-8")
        for encoder in arguments.encoder:
            for seed in range(arguments.seeds):
                found = advise(encoder, str(corpus), seed=seed, store_dir=arguments.store_dir)
                stable = "no" if any(candidate.tied for candidate in found.candidates) else "yes"
                for split in ("dev", "test"):
                    figures = cells(scores(rows, encoder, split), found.setting)
                    name = Path(encoder).name
                    print(f"| {name} | {seed} | {split} | {found.label} | {stable} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
