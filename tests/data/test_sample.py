"""The built-in sample: sizes, pinned contents, and what its labels promise."""

import hashlib
import json
import re
from collections import Counter

import numpy as np

from flowbert.data.sample import SPLITS, encoder_path, sample_corpus, sample_nli, sample_pairs


def _digest(data: object) -> str:
    return hashlib.blake2b(json.dumps(data).encode(), digest_size=8).hexdigest()


def test_sizes() -> None:
    assert len(sample_corpus()) == 20_000
    assert {split: len(sample_pairs(split)) for split in SPLITS} == {"train": 3000, "dev": 750, "test": 1000}
    assert len(sample_nli()) == 12_000


def test_contents_are_pinned_on_every_machine() -> None:
    assert _digest(sample_corpus()) == "87f405ae5f90d8df"
    assert {split: _digest(sample_pairs(split)) for split in SPLITS} == {
        "train": "a5521bbf16bdf4d2",
        "dev": "0e705534b75d733a",
        "test": "44f70679e7fd60c0",
    }
    assert _digest(sample_nli()) == "afa6c8d76005f342"


def test_scores_spread_over_the_whole_range() -> None:
    scores = np.array([score for _, _, score in sample_pairs("test")])
    assert scores.min() == 0.0
    assert scores.max() == 5.0
    assert np.histogram(scores, bins=5, range=(0, 5))[0].min() >= 50
    assert len(np.unique(scores)) > 100
    np.testing.assert_array_equal(scores, scores.round(2))


def test_sentences_look_like_sentences() -> None:
    for sentence in sample_corpus():
        assert re.fullmatch(r"[A-Z][A-Za-z, ]*[a-z]\.", sentence), sentence
        assert "  " not in sentence
        assert not re.search(r"\b(a [aeiou]|an [^aeiou])", sentence.lower()), sentence


def test_word_frequencies_are_skewed_and_negation_is_there() -> None:
    words = Counter(word for s in sample_corpus() for word in re.findall("[a-z]+", s.lower()))
    counts = sorted(words.values(), reverse=True)
    assert 900 < len(words) < 1200
    assert sum(counts[:100]) / sum(counts) > 0.7
    negated = sum(bool(re.search(r"\b(not|never)\b", s)) for s in sample_corpus()) / 20_000
    assert 0.08 < negated < 0.12


def test_nli_groups_of_three_and_no_negated_premise() -> None:
    pairs = sample_nli()
    for start in range(0, len(pairs), 3):
        group = pairs[start : start + 3]
        assert len({premise for premise, _, _ in group}) == 1
        assert [label for _, _, label in group] == ["entailment", "neutral", "contradiction"]
        assert not re.search(r"\b(not|never)\b", group[0][0])
        assert not re.search(r"\b(not|never)\b", group[0][1] + group[1][1])
    contradictions = [hypothesis for _, hypothesis, label in pairs if label == "contradiction"]
    assert 0.2 < sum(bool(re.search(r"\b(not|never)\b", h)) for h in contradictions) / len(contradictions) < 0.6


def test_tiny_encoder_is_small_and_loads_by_path() -> None:
    from transformers import AutoTokenizer, BertModel

    folder = encoder_path()
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4_000_000
    model = BertModel.from_pretrained(folder, add_pooling_layer=False)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.vocab_size == len(tokenizer)
    ids = [token for ids in tokenizer(list(sample_corpus()[:2000]))["input_ids"] for token in ids]
    assert tokenizer.unk_token_id not in ids
    assert max(map(len, tokenizer(["An unseen word: Xylograph, #42!"])["input_ids"])) < 30
    assert tokenizer.unk_token_id not in tokenizer("An unseen word: Xylograph, #42!")["input_ids"]


def test_tiny_encoder_has_learned_something_of_the_meaning() -> None:
    import torch
    from scipy.stats import spearmanr
    from transformers import AutoTokenizer, BertModel

    model = BertModel.from_pretrained(encoder_path(), add_pooling_layer=False, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(encoder_path())
    pairs = sample_pairs("dev")

    def embed(sentences: list[str]) -> torch.Tensor:
        features = tokenizer(sentences, padding=True, return_tensors="pt")
        with torch.inference_mode():
            mask = features["attention_mask"][..., None]
            tokens = model(**features).last_hidden_state
        return torch.nn.functional.normalize((tokens * mask).sum(1) / mask.sum(1))

    cosine = (embed([a for a, _, _ in pairs]) * embed([b for _, b, _ in pairs])).sum(1)
    assert spearmanr(cosine.numpy(), [score for _, _, score in pairs]).statistic > 0.2
