"""Weights that do not fit into the memory are told before they are loaded."""

import pytest

from encoders.tiny import tiny_network, word_tokenizer
from flowbert.encoders import SentenceEncoder, memory
from flowbert.errors import UserError


@pytest.mark.parametrize("shards", ["1GB", "4KB"])
def test_weights_larger_than_the_memory(shards, tmp_path, monkeypatch):
    network = tiny_network("llama")
    network.save_pretrained(tmp_path / "llama", max_shard_size=shards)
    word_tokenizer(decoder=True).save_pretrained(tmp_path / "llama")
    kilobytes = 3 * sum(x.numel() for x in network.parameters()) // 1024
    free = tmp_path / "meminfo"
    free.write_text(f"MemFree: 0 kB\nMemAvailable:   {kilobytes} kB\n")
    monkeypatch.setattr(memory, "_MEMORY_FILE", free)
    path = str(tmp_path / "llama")
    with pytest.raises(UserError, match=r"^encoder: received .*GB in float32"):
        SentenceEncoder(path)
    SentenceEncoder(path, dtype="bfloat16")
