"""A WordPiece vocabulary of one's own, for an encoder that starts from scratch."""

import string
from collections.abc import Iterable
from pathlib import Path

from flowbert.errors import UserError
from flowbert.progress import progress

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_wordpiece(sentences: Iterable[str], vocab_size: int, max_length: int, folder: str | Path) -> None:
    """Train an uncased WordPiece tokenizer and save it as a folder that transformers loads.

    All printable ASCII characters are in the vocabulary, at the start and inside a word, so that English text never
    becomes ``[UNK]``. The result depends on nothing but the sentences and the sizes.

    Args:
        sentences: Text to train on.
        vocab_size: Largest vocabulary; a small corpus gives a smaller one.
        max_length: Longest sequence of the encoder, special tokens included.
        folder: Where to write tokenizer.json and tokenizer_config.json.

    Raises:
        UserError: If there is no text, or the vocabulary cannot hold the characters of the text.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import BertTokenizer

    text = tuple(sentences)
    normalizer = normalizers.BertNormalizer(lowercase=True)
    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer, trained.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    # The trainer numbers inner characters in the random order of a hash map and breaks ties by number; as "special"
    # tokens they get fixed numbers. The final tokenizer takes the vocabulary alone: there they are ordinary pieces.
    characters = _characters(normalizer.normalize_str(sentence) for sentence in text)
    fixed = [*SPECIAL_TOKENS, *characters, *(f"##{c}" for c in characters if c.isalnum())]
    if not text:
        raise UserError("vocabulary: received no sentence; allowed: 1 or more")
    if vocab_size < len(fixed):
        raise UserError(
            f"vocab_size: received {vocab_size}; allowed: {len(fixed)} or more, for the special tokens and the "
            f"{len(characters)} characters of this text"
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, min_frequency=2, special_tokens=fixed, show_progress=False
    )
    with progress(None, "Finding word pieces"):
        trained.train_from_iterator(text, trainer)
    tokenizer = Tokenizer(models.WordPiece(trained.get_vocab(), unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    cls, sep = (SPECIAL_TOKENS.index(token) for token in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    BertTokenizer(tokenizer_object=tokenizer, model_max_length=max_length, do_lower_case=True).save_pretrained(folder)


def _characters(texts: Iterable[str]) -> list[str]:
    found = set(string.printable.lower()).union(*texts)
    return sorted(c for c in found if not c.isspace())
