"""Small corpora in the layouts of their authors, written into a folder."""

import json
import pickle
import tarfile
from itertools import product

import numpy as np
import soundfile


def tone(seconds=0.5, rate=16000, channels=1, loud=0.3):
    wave = loud * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)
    return np.tile(wave[:, None], (1, channels))


def put(path, sound=None, rate=16000, text=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        path.write_text(text)
    else:
        kind = "NIST" if path.suffix == ".sph" else None
        soundfile.write(path, tone() if sound is None else sound, rate, format=kind)
    return path


def pack(folder, archive):
    """The archive of a folder and all that is in it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, folder.name)
    return archive


def timit(folder, capital=True):
    text = "0 1600 h#\n1600 4000 sh\n4000 4800 q\n4800 6000 tcl\n6000 6400 pau\n6400 8000 ix\n"
    speakers = ("TRAIN", "FCJF0"), ("TRAIN", "MABC0"), ("TEST", "MDAB0"), ("TEST", "MXXX0")
    for (part, speaker), sentence in product(speakers, ("SX127", "SA1")):
        name = f"{part}/DR1/{speaker}/{sentence}."
        for end, content in (("PHN", text), ("WAV", None)):
            place = name + end if capital else (name + end).lower()
            put(folder / place, text=content)
    return folder


def librispeech(folder):
    for part, book in (("train-clean-100", "103"), ("dev-clean", "84"), ("test-clean", "1089")):
        at = folder / "LibriSpeech" / part / book / "7"
        put(
            at / f"{book}-7.trans.txt",
            text=f"{book}-7-0000 HE'D WAIT\n{book}-7-0001 NO LONGER\n",
        )
        for number in range(2):
            put(at / f"{book}-7-{number:04}.flac")
    return folder


def fsdd(folder, takes=10, speakers=("ann",)):
    for digit, speaker, take in product(range(10), speakers, range(takes)):
        put(folder / f"top/recordings/{digit}_{speaker}_{take}.wav", tone(0.2, 8000), 8000)
    return folder


def coco(folder, pictures=3):
    """Order embeddings' own layout; the features of a split are a row a picture."""
    (folder / "images" / "10crop").mkdir(parents=True)
    for number, split in enumerate(("train", "val", "test")):
        lines = [
            f"a {split} dog {k} sits on picture {n}" for n in range(pictures) for k in range(5)
        ]
        put(folder / f"{split}.txt", text="\n".join(lines) + "\n")
        vectors = np.random.default_rng(number).random((pictures, 4), np.float32)
        np.save(folder / "images" / "10crop" / f"{split}.npy", vectors)
    return folder


def coco_boxes(folder, pictures=8):
    """COCO's captions, six to a picture, and the boxes of things in them."""
    images = [
        {"id": n, "file_name": f"{n:012}.jpg", "width": 100, "height": 50}
        for n in range(pictures)
    ]
    said = [
        {"id": 10 * n + k, "image_id": n, "caption": f"A man, and {k} dogs; picture {n}."}
        for n in range(pictures)
        for k in range(6)
    ]
    put(
        folder / "annotations" / "captions_val2017.json",
        text=json.dumps({"images": images, "annotations": said}),
    )
    put(folder / "boxes" / "coco_name.txt", text="background\nperson\ndog\n")
    lines = [f"{n:012}.jpg 0 {n} 25 {n + 50} 1 10 10 20 40 2" for n in range(pictures - 1)]
    lines.append(f"{pictures - 1:012}.jpg")  # nothing stands in it
    put(folder / "boxes" / "coco_val2017.txt", text="\n".join(lines) + "\n")
    return folder


CIFAR_BATCH = 20


def cifar_batch(name, **changed):
    """A file of CIFAR-10 with few pictures; ``changed`` replaces what it has."""
    number = 6 if name == "test_batch" else int(name[-1])
    part = "testing batch 1 of 1" if number == 6 else f"training batch {number} of 5"
    random = np.random.default_rng(number)
    whole = {
        "batch_label": part,
        "labels": [n % 10 for n in range(CIFAR_BATCH)],
        "data": random.integers(0, 256, (CIFAR_BATCH, 3072), np.uint8),
        "filenames": [f"{n}.png" for n in range(CIFAR_BATCH)],
    }
    return pickle.dumps(whole | changed, protocol=2)


def cifar10(folder):
    place = folder / "cifar-10-batches-py"
    place.mkdir(parents=True)
    for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
        (place / name).write_bytes(cifar_batch(name))
    return folder


def cifar10_archive(folder):
    """The archive of what :func:`cifar10` writes."""
    files = cifar10(folder / "files") / "cifar-10-batches-py"
    return pack(files, folder / "cifar-10-python.tar.gz")


def cnn(folder):
    """CNN's articles: a .question file each, of three, two and five questions."""
    for part, count in (("training", 5), ("validation", 2), ("test", 3)):
        for number in range(count):
            put(
                folder / "questions" / part / f"{number:040x}.question",
                text=f"http://cnn.com/{part}/{number}\n\n"
                f"@entity1 ( @entity0 ) said {number} words . @entity10 , and {part} , said "
                f"nothing ! the end\n\n@entity0 heard @placeholder in {number} words\n\n"
                "@entity10\n\n@entity0:CNN\n@entity10:A : B\n@entity1:New York\n",
            )
    return folder


def cbt(folder):
    """Ten books of one sentence again and again, in two files."""
    letters = "abcdefghijklmnopqrst"
    words = [f"w{letter}lked" for letter in letters]
    names = [f"{letter.upper()}nna" for letter in letters]
    for half, part in enumerate(("valid", "test")):
        text = ""
        for number in range(5 * half, 5 * half + 5):
            text += f"_BOOK_TITLE_ : Author___Book_{number}.txt\n"
            for line in range(80):
                chosen = [(number + 3 * line + k) % 20 for k in range(3)]
                said = " , ".join(f"then {names[k]} {words[k]}" for k in chosen)
                text += f"in {number} {said} .\n"
        put(folder / "data" / f"cbt_{part}.txt", text=text)
    return folder


def imdb(folder, each=10):
    """``aclImdb/{train,test}/{neg,pos}/NUMBER_STARS.txt``; returns the folder above."""
    for split in ("train", "test"):
        for name, stars, word in (("neg", 2, "dull"), ("pos", 9, "great")):
            place = folder / "aclImdb" / split / name
            place.mkdir(parents=True)
            for n in range(each):
                text = f"A {word} film, {split} {n}.<br />It isn't {name}!"
                (place / f"{n}_{stars}.txt").write_text(text)
    return folder


def imdb_archive(folder, each=10):
    """The archive of what :func:`imdb` writes."""
    files = imdb(folder / "files", each) / "aclImdb"
    return pack(files, folder / "packed" / "aclImdb_v1.tar.gz")


def sentences(number, count=8):
    """Sentences of a book in small letters, the fourth one of 30 words."""
    lines = [f"in book {number} line {line} ends here ." for line in range(count)]
    lines[3] = " ".join(["long"] * 29) + " ."
    return lines


def bookcorpus(folder):
    """A file a book, one in a folder of its own."""
    for number, place in enumerate(("a.txt", "b.txt", "more/c.txt")):
        put(folder / place, text="\n".join(sentences(number)) + "\n")
    return folder


LICENCE = "This eBook is for the use of anyone anywhere. Nobody may train on the licence."


def gutenberg(folder):
    """Novels with the licence before and behind them, in ASCII with CRLF and in Latin-1."""
    for number, (encoding, name) in enumerate((("ASCII", "Ann"), ("ISO-8859-1", "Zoë"))):
        told = "\n\n".join(
            f'"Did Mr. {name} go?" asked\nDr. Bell. "No--_never_; she can\'t do it," said I.\n'
            f"It was {hour} o'clock in book {number}."
            for hour in range(5)
        )
        title = f"THIS PROJECT GUTENBERG EBOOK {name.upper()}"
        text = (
            f"The Project Gutenberg EBook of {name}\n\n{LICENCE}\n\n"
            f"Character set encoding: {encoding}\n\n*** START OF {title} ***\n\n\n"
            f"Produced by volunteers and\nothers\n\n\n{told}\n\n\n"
            f"End of the Project Gutenberg EBook of {name}\n\n*** END OF {title} ***\n\n"
            f"{LICENCE}\n"
        )
        path = folder / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.replace("\n", "\r\n").encode(encoding))
    return folder


def novels(folder):
    gutenberg(folder / "gutenberg")
    cbt(folder / "cbt" / "CBTest")
    return folder


HEADING = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def sick(folder, each=4):
    """The three files of SICK, with CRLF in one of them."""
    for part in ("train", "trial", "test_annotated"):
        lines = [HEADING]
        for n in range(each):
            lines.append(f"{n}\tA {part} dog, {n}\tThe man isn't there\t{1 + n % 5}.5\tNEUTRAL")
        end = "\r\n" if part == "trial" else "\n"
        path = folder / "sick" / f"SICK_{part}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((end.join(lines) + end).encode())
    return folder


def sentence_tasks(folder, each=12):
    """All five judges, MR and SUBJ in Windows-1252, by their official names."""
    sick(folder)
    for place, names, encoding in (
        ("mr/rt-polaritydata", ("rt-polarity.neg", "rt-polarity.pos"), "cp1252"),
        ("cr", ("custrev.neg", "custrev.pos"), "ascii"),
        ("subj/rotten_imdb", ("plot.tok.gt9.5000", "quote.tok.gt9.5000"), "cp1252"),
        ("mpqa", ("mpqa.neg", "mpqa.pos"), "ascii"),
    ):
        accent = "café …" if encoding == "cp1252" else "cafe"
        for number, name in enumerate(names):
            lines = [f"{accent} {name} {n} , isn't it ? " for n in range(each + number)]
            path = folder / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(("\n".join([*lines[:2], " ", *lines[2:]]) + "\n").encode(encoding))
    return folder


PEN = """
.WRITER_ID {writer}
.STYLE MIXED

.PEN_DOWN
582 157
581 {y}
560 120
.PEN_UP
.PEN_DOWN
566 122
634 150
.PEN_UP
"""


def unipen(folder, texts=(), pens=()):
    """Lines of twelve writers, two of each; ``texts`` and ``pens`` in place of the first."""
    root = folder / "train_r01_v07"
    for number in range(24):
        name = f"apa{number:02}/app{number:02}00.dat"
        text = [*texts, *(f"a quick fox {k}" for k in range(24))][number]
        own = PEN.format(writer=f"writer {number // 2}", y=130 + number)
        put(root / "include/apa/data" / name, text=pens[number] if number < len(pens) else own)
        label = f".VERSION 1.0\n.INCLUDE apa/app.doc\n.INCLUDE apa/data/{name}\n{text}\n"
        if not text.startswith("."):
            label = label.replace(text, f'.SEGMENT TEXT 0-1 ? "{text}"')
        put(root / "data/8/apa" / name, text=label)
    return folder


SESSION = (
    '<?xml version="1.0"?><WhiteboardCaptureSession><StrokeSet>{strokes}</StrokeSet>'
    "</WhiteboardCaptureSession>"
)
STROKE = (
    '<Stroke colour="black"><Point x="{x}" y="992" time="1.0"/>'
    '<Point x="927" y="{x}" time="2.0"/></Stroke>'
)


def iam(folder):
    """Two lines of each of four forms, one form a list."""
    said = "OCR:\n\nA MOVE\nto\n\nCSR:\n\nA MOVE\nto stop, Mr. Q\n"
    for number, name in enumerate(("trainset", "testset_t", "testset_v", "testset_f")):
        form, place = f"a01-00{number}u", f"a01/a01-00{number}"
        put(folder / f"{name}.txt", text=f" {form}\n")
        put(folder / "ascii" / place / f"{form}.txt", text=said)
        for line in (1, 2):
            strokes = "".join(STROKE.format(x=895 + 10 * line + k) for k in range(3))
            put(folder / "lineStrokes" / place / f"{form}-0{line}.xml",
                text=SESSION.format(strokes=strokes))  # fmt: skip
    return folder
