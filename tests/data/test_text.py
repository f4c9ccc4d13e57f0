"""Text: windows that say what comes next, codes that are read back, and files that are not."""

import hashlib

import pytest
import torch

from lnlab import data
from lnlab.data.text import make_tales


def own(tmp_path, content, **options):
    path = tmp_path / "own.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return data.load(f"txt={path}", "text", **options)


def test_a_case_is_a_window_and_its_answer_the_characters_behind_each_of_them():
    text = data.load("embedded", "text", context=7)
    for part in (text.train, text.valid, text.test):
        assert part.x.shape == part.y.shape == (len(part), 7)
        assert torch.equal(part.x.flatten()[1:], part.y.flatten()[:-1])
    assert text.decode(text.train.x[:3].flatten()) == text.text[:21]
    assert text.decode(text.train.y[0]) == text.text[1:8]
    assert text.kind == "synthetic"
    assert text.checksum == hashlib.sha256(text.text.encode()).hexdigest()


def test_longer_tales_begin_with_shorter_ones_and_pronouns_are_never_in_doubt():
    assert make_tales(5000).startswith(make_tales(900))
    assert len(make_tales(900)) == 900
    for line in make_tales(20_000).splitlines()[:-1]:
        _, told, *_ = line.split(". ")
        giver, _, given, *_ = told.split()
        assert {giver, given} not in ({"she", "her"}, {"he", "him"}), line


def test_a_character_outside_the_vocabulary_is_named():
    text = data.load("embedded", "text")
    assert text.decode(text.encode("anna met ben.")) == "anna met ben."
    with pytest.raises(ValueError, match="character 3 is 'É', which tales does not have"):
        text.encode("annÉ")


def test_a_text_shorter_than_a_context_says_how_long_it_has_to_be(tmp_path):
    text = own(tmp_path, "ab" * 60, context=8)
    with pytest.raises(
        ValueError, match="the valid part of the text has 6 characters, an exam"
    ):
        text.train  # noqa: B018
    assert len(own(tmp_path, "ab" * 100, context=8).valid) == 1


def test_files_that_are_no_text_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"own\.txt is no text in utf-8: convert it"):
        own(tmp_path, b"abc\xff" * 100).train  # noqa: B018
    with pytest.raises(ValueError, match="name your file, txt=PATH"):
        data.load("txt", "text")
    with pytest.raises(FileNotFoundError, match=r"txt=.*nothing names no file.*txt=PATH"):
        data.load(f"txt={tmp_path / 'nothing'}", "text")


def test_what_is_not_the_official_text_is_not_taken_for_it(tmp_path):
    (tmp_path / "input.txt").write_text("First Citizen:\n" * 1000)
    text = data.load(f"shakespeare={tmp_path}", "text")
    with pytest.raises(ValueError, match=r"its examples have checksum .* expected 86c4"):
        text.train  # noqa: B018
