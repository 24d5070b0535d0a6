"""Words of any script."""

import unicodedata

import pytest

from examples.low_overlap import words
from flowbert.data.text_files import split_words

# With vowel signs, a virama, tone marks, points and a joiner: one word each.
SCRIPTS = [
    "आदमी",
    "क्षेत्र",
    "தமிழ்",
    "ที่นี่",
    "کتابِ",
    "שָׁלוֹם",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "naïve",
    "Việt",
]


def is_word(piece):
    return piece[0].isalnum() or piece[0] == "_"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("word", SCRIPTS)
def test_marks_belong_to_their_word(word, form):
    word = unicodedata.normalize(form, word)
    sentence = f"{word}, x{word}\u2019{word} ({word})"
    runs = [word, f"x{word}", word, word]
    assert [*filter(is_word, split_words(sentence))] == runs
    assert "".join(split_words(sentence)) == sentence.replace(" ", "")
    assert words(sentence) == [run.lower() for run in runs]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "The DOG's naïve, _x_ 3.5!",
            ["The", "DOG", "'", "s", "naïve", ",", "_x_", "3", ".", "5", "!"],
        ),
        ("x² ½ \u0301 \u2764\ufe0f", ["x²", "½", "\u0301", "\u2764", "\ufe0f"]),
        (" \u2028 ", []),
    ],
)
def test_signs_are_alone(sentence, expected):
    assert split_words(sentence) == expected
    signs = [piece for piece in expected if not is_word(piece)]
    assert all(len(sign) == 1 for sign in signs)
