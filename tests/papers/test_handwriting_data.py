"""Handwriting: points along strokes, three sources, and damaged lines of theirs."""

import numpy as np
import pytest

from lnlab import data
from lnlab.papers.handwriting import pen
from lnlab.papers.handwriting.data import ALPHABETS, PER_CHARACTER, STEP
from lnlab.papers.handwriting.pen import (
    offsets_to_strokes,
    resample_stroke,
    strokes_to_offsets,
    total_stroke_length,
)
from tests.data import layouts

ZIGZAG = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0], [9.0, 8.0]])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pen, "SIZES", {"train": 24, "valid": 8, "test": 8})


def test_strokes_are_the_sums_of_their_offsets():
    lines = [ZIGZAG, ZIGZAG[:1] + 20, ZIGZAG - 5]
    again = offsets_to_strokes(strokes_to_offsets(lines))
    assert [len(stroke) for stroke in again] == [4, 1, 4]
    for stroke, line in zip(again, lines, strict=True):
        np.testing.assert_allclose(stroke, line - lines[0][0], atol=1e-5)
    assert not strokes_to_offsets(lines)[0, :2].any()


def test_resampled_points_are_at_equal_distances():
    points = resample_stroke(ZIGZAG, 0.5)
    along = np.linspace(0, total_stroke_length([ZIGZAG]), len(points))
    corners = np.concatenate([[0], np.linalg.norm(np.diff(ZIGZAG, axis=0), axis=1).cumsum()])
    expected = [np.interp(along, corners, ZIGZAG[:, k]) for k in range(2)]
    np.testing.assert_allclose(points.T, expected)
    np.testing.assert_array_equal(points[[0, -1]], ZIGZAG[[0, -1]])
    assert abs(total_stroke_length([ZIGZAG]) / (len(points) - 1) - 0.5) < 0.02


def test_generated_lines_know_the_character_of_every_point():
    dataset = data.load("pen", "strokes")
    for line in dataset.train:
        letters = {index for index, letter in enumerate(line.text) if letter != " "}
        assert {*line.true_char_index_per_point.tolist()} == letters
        assert len(line.true_char_index_per_point) == len(line.offsets)
        assert (np.diff(line.true_char_index_per_point) >= 0).all()  # from left to right
        assert set(line.text) <= set(ALPHABETS["pen"])
    train, *others = ({line.writer for line in split} for split in
                      (dataset.train, dataset.valid, dataset.test))  # fmt: skip
    assert not train & set.union(*others)
    assert len({line.offsets.tobytes() for line in dataset.train}) == len(dataset.train)


def test_unipen_is_read_from_folder_and_archive_and_split_by_writer(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    folder = layouts.unipen(tmp_path / "files")
    archive = layouts.pack(folder / "train_r01_v07", tmp_path / "unipen_x.tar.gz")
    dataset, packed = (data.load(f"unipen={path}", "strokes") for path in (folder, archive))
    assert dataset.checksum == packed.checksum
    splits = dataset.train, dataset.valid, dataset.test
    assert [len(split) for split in splits] == [20, 2, 2]
    writers = [{line.writer for line in split} for split in splits]
    assert len(set.union(*writers)) == sum(map(len, writers)) == 12
    assert dataset.name == "unipen"
    assert str(dataset).endswith("0 lines to test have a text that is trained on too")
    for line in dataset.train:
        assert abs(line.num_points_after_first - PER_CHARACTER * len(line.text)) <= 3
        assert int(line.offsets[:, 2].sum()) == 2


def test_bad_lines_of_unipen_are_counted_in_the_name(tmp_path):
    good = layouts.PEN.format(writer="w", y=130)
    texts = (".COMMENT nothing said", "!? #", 'say \\"no\\"', "nan", "far", "one")
    pens = (good, good, good, good.replace("581 130", "nan nan\n1e30 4"),
            good.replace("566 122\n634 150", "99000 99000"),
            ".WRITER_ID w\n.PEN_DOWN\n5 5\n.PEN_UP\n")  # fmt: skip
    dataset = data.load(f"unipen={layouts.unipen(tmp_path, texts, pens)}", "strokes")
    assert dataset.name == "unipen, 3 lines left out"
    lines = [*dataset.train, *dataset.valid, *dataset.test]
    assert 'say "no"' in {line.text for line in lines}
    assert all(np.isfinite(line.offsets).all() for line in lines)
    assert len(lines) == 21


def test_damaged_pen_data_and_paths_out_of_the_folder_are_refused(tmp_path):
    folder = layouts.unipen(tmp_path / "a", pens=(".PEN_DOWN\n1 2\n3\n.PEN_UP\n",))
    with pytest.raises(ValueError, match=r"app0000.dat.*pairs x y"):
        _ = data.load(f"unipen={folder}", "strokes").train
    folder = layouts.unipen(tmp_path / "b")
    (label,) = folder.glob("*/data/8/apa/apa00/*.dat")
    label.write_text(label.read_text().replace("apa/data/apa00", "apa/data/../../../../apa00"))
    with pytest.raises(FileNotFoundError, match="which is not in"):
        _ = data.load(f"unipen={folder}", "strokes").train


def test_lines_of_iam_are_read_in_their_layout(tmp_path):
    dataset = data.load(f"iam={layouts.iam(tmp_path)}", "strokes")
    splits = dataset.train, dataset.valid, dataset.test
    assert [len(split) for split in splits] == [4, 2, 2]
    line = dataset.train[1]
    assert (line.name, line.writer, line.text) == ("a01-000u-02", "a01-000u", "to stop, Mr. Q")
    assert len(line.strokes) == 3
    expected = [[0, 0], [927 - 915, 992 - 915]]  # y grows upwards
    np.testing.assert_allclose(line.strokes[0] * STEP, expected, atol=1e-4)


def test_damaged_files_of_iam_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="forbids to give it on: register at"):
        data.load(f"iam={tmp_path}", "strokes")
    (path,) = layouts.iam(tmp_path).glob("lineStrokes/*/*/a01-000u-01.xml")
    for content, message in (
        ('<!DOCTYPE a [<!ENTITY b "c">]><a/>', "declares types"),
        (layouts.SESSION.format(strokes='<Stroke><Point x="1"/></Stroke>'), "no line of IAM"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=f"a01-000u-01.xml.*{message}"):
            _ = data.load(f"iam={tmp_path}", "strokes").train
