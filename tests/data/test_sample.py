"""The built-in sample has the same contents on every machine."""

import hashlib
import json

from flowbert.data.sample import SPLITS, sample_corpus, sample_nli, sample_pairs


def digest(data):
    return hashlib.blake2b(json.dumps(data).encode(), digest_size=8).hexdigest()


def test_contents_are_pinned():
    assert digest(sample_corpus()) == "87f405ae5f90d8df"
    assert digest(sample_nli()) == "afa6c8d76005f342"
    assert [digest(sample_pairs(split)) for split in SPLITS] == [
        "a5521bbf16bdf4d2",
        "0e705534b75d733a",
        "44f70679e7fd60c0",
    ]
