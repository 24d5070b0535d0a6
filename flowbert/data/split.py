"""Words of a sentence."""

import re
import unicodedata
from functools import cache

_MARK = "\u0300"  # any mark, for the expression
_PIECE = re.compile(rf"\w[\w{_MARK}]*|[^\w\s]")
_JOINERS = "\u200c\u200d"  # zero width non-joiner and joiner


def split_words(sentence: str) -> list[str]:
    """Split into words (letters, digits and underscores) and single other characters.

    Combining marks and joiners belong to the letter before them.

    References:
        Unicode Text Segmentation (Unicode Standard Annex 29), rule WB4.
        https://www.unicode.org/reports/tr29

    Example:
        >>> split_words("A dog's life.")
        ['A', 'dog', "'", 's', 'life', '.']
    """
    if sentence.isascii():
        return _PIECE.findall(sentence)
    shape = "".join(map(_shape, sentence))
    return [sentence[slice(*match.span())] for match in _PIECE.finditer(shape)]


def is_word(piece: str) -> bool:
    """Whether a piece of :func:`split_words` is a word."""
    return piece[0].isalnum() or piece[0] == "_"


@cache
def _shape(character: str) -> str:
    """The same mark for all marks; any other character unchanged."""
    is_mark = unicodedata.category(character).startswith("M")
    return _MARK if is_mark or character in _JOINERS else character
