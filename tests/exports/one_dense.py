"""What text-embeddings-inference and vLLM read of a folder of sentence-transformers; no more.

Neither sentence-transformers nor flowbert is used. Modules of other names are left out without an
error, as there; with none of them the pooling is that of the network, [CLS].
"""

import json

import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

STOCK = "sentence_transformers.models."


def read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def served(folder, texts):
    """Vectors, ``(N, k)``."""
    records = {
        record["type"]: record["path"] for record in read(folder / "modules.json")
    }
    pooling = read(folder / "1_Pooling" / "config.json")
    length = read(folder / "sentence_bert_config.json")["max_seq_length"]
    network = AutoModel.from_pretrained(folder).float().eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = []
    for text in texts:
        tokens = tokenizer(
            text, truncation=True, max_length=length, return_tensors="pt"
        )
        with torch.no_grad():
            hidden = network(**tokens).last_hidden_state[0]
        is_mean = pooling.get("pooling_mode_mean_tokens", False)
        rows.append(hidden.mean(0) if is_mean else hidden[0])
    vectors = torch.stack(rows)
    if f"{STOCK}Dense" in records:
        path = folder / records[f"{STOCK}Dense"]
        layer, config = (
            load_file(path / "model.safetensors"),
            read(path / "config.json"),
        )
        vectors = vectors @ layer["linear.weight"].T
        if config["bias"]:
            vectors = vectors + layer["linear.bias"]
        if config["activation_function"] == "torch.nn.modules.activation.Tanh":
            vectors = vectors.tanh()
    if f"{STOCK}Normalize" in records:
        vectors = torch.nn.functional.normalize(vectors)
    return vectors.numpy()
