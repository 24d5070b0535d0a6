"""The table of the seven STS tasks with intervals, cold and warm, beside one raw pass over their sentences.

Ours is the whole command in a process of its own: six methods with 95% intervals, with an empty store and then with a
full one; without the page. The peer encodes each distinct sentence once, in this process, and computes no figure.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.encoding import PEER_BATCH, arithmetic
from benchmarks.harness import NotMeasured, Product, Row, Setting
from flowbert.data.sts import TASKS, load_task
from flowbert.encoders import SentenceEncoder

METHODS = "raw,standardization,nulling-3,whitening,whitening-128,zca"


def rows(setting: Setting) -> list[Row]:
    """Seconds of the command, cold and warm.

    Raises:
        NotMeasured: Without real data, with another clock than the wall's, or without sentence-transformers.
    """
    import torch

    if setting.clock != "wall":
        raise NotMeasured("runs processes of its own: only by the wall clock")
    senteval, model = setting.real_folder("data", "senteval"), str(setting.real_folder("models", "minilm-mlm"))
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise NotMeasured("needs sentence-transformers") from error
    names = TASKS[: setting.times(len(TASKS))]
    encoder = SentenceEncoder.from_pretrained(model, layers="last")
    texts = list(dict.fromkeys(text for name in names for text in load_task(name, senteval).sentences()))
    peer = SentenceTransformer(model, device="cpu", model_kwargs={"dtype": torch.float32})
    peer.max_seq_length = encoder.max_length
    product = Product(512, encoder.dim, 4 * encoder.dim, torch.float32)
    best = setting.seconds({"product": product}, 20)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).parents[1] / "train.py"), "evaluate", "--encoder.path", model]
        command += ["--encoder.layers", "last", "--methods", METHODS, "--tasks", ",".join(names)]
        command += ["--senteval", str(senteval), "--store_dir", f"{folder}/store"]

        def ours(state: str) -> None:
            # Each into a file of its own: figures that are there are not computed again.
            output = ["--output", f"{folder}/{state}.json"]
            environment = {**os.environ, "FLOWBERT_REPORT": "0"}
            subprocess.run([*command, *output], check=True, capture_output=True, env=environment)

        best |= setting.seconds({"cold": lambda: ours("cold")}, 1)
        best |= setting.seconds({"peer": lambda: peer.encode(texts, batch_size=PEER_BATCH)}, 1)
        best |= setting.seconds({"warm": lambda: ours("warm")}, 1)
    operations = arithmetic(encoder, encoder.lengths(texts))
    passes = operations * best["product"] / product.operations
    return [
        Row(
            name=f"seven tasks, six methods, intervals; {state}",
            setting=f"{len(names)} tasks, {len(texts)} distinct sentences",
            ours=best[state],
            peer=best["peer"],
            peer_name="one raw pass of sentence-transformers, no figures",
            floor=floor,
            floor_is=floor_is,
            aim=aim,
        )
        for state, floor, floor_is, aim in (
            ("cold", passes, f"{operations / 1e9:.0f} GFLOP of the encoder", "0.75 of the peer's time"),
            ("warm", 0.0, "not stated", "8 s"),
        )
    ]
