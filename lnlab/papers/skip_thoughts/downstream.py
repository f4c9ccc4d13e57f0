"""Downstream tasks for sentence vectors: generated here, and five of Kiros et al. (2015).

- SICK (Marelli et al., 2014): the relatedness of two sentences.
- MR (Pang and Lee, 2005), CR (Hu and Liu, 2004): good or bad reviews of films, of products.
- SUBJ (Pang and Lee, 2004): subjective or objective.
- MPQA (Wiebe et al., 2005): the polarity of an opinion in a phrase.
"""

import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO
from itertools import chain
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np

from lnlab.data.cache import hash_file_stats
from lnlab.data.dataset import Dataset, Source, read_text, sort_by_hash, sources_offering
from lnlab.papers.skip_thoughts import data
from lnlab.papers.skip_thoughts.data import (
    BAD,
    GLAD,
    GOOD,
    SAD,
    SUBJECTS,
    Event,
    StorySetup,
    TokenizedSentences,
    join_sentences_by_newlines,
    load_or_tokenize,
    random_event,
    random_events_of_one_agent,
    random_story_setup,
    tokenize,
)
from lnlab.paths import data_folder

STORY_TASKS, SENTENCE_TASKS = SOURCES = sources_offering("tasks")

FOLDS = 10  # as the authors of skip-thoughts have it
TRAIN, TRIAL, TEST = range(3)  # the splits of pairs


@dataclass(frozen=True, eq=False)
class SentenceTask:
    """Examples for a linear model on frozen sentence vectors.

    Attributes:
        name: of the task.
        first_sentences: tokenized (N); of single sentences all.
        second_sentences: the second sentence of each pair (N); empty for single sentences.
        targets: float64 (N,): the relatedness of a pair, from 1 to 5; else the class, 0 or 1.
        split_or_fold_numbers: int64 (N,): of pairs :data:`TRAIN`, :data:`TRIAL` or
            :data:`TEST`; else the fold.
    """

    name: str
    first_sentences: TokenizedSentences
    second_sentences: TokenizedSentences
    targets: np.ndarray
    split_or_fold_numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def has_pairs(self) -> bool:
        """True if an example is a pair of sentences."""
        return bool(self.second_sentences)

    @property
    def first_and_second_sentences(self) -> TokenizedSentences:
        """All sentences, the second ones of pairs behind the first ones."""
        return [*self.first_sentences, *self.second_sentences]

    @property
    def checksum(self) -> str:
        """SHA-256 of all examples."""
        total = hashlib.sha256(
            f"{self.name}\n{join_sentences_by_newlines(self.first_and_second_sentences)}\0".encode()
        )
        total.update(
            self.targets.astype("<f8").tobytes()
            + self.split_or_fold_numbers.astype("<i8").tobytes()
        )
        return total.hexdigest()


def assign_folds_by_hash(hash_salt: str, num_examples: int) -> np.ndarray:
    """Assign examples to folds of nearly equal size by a hash, and return the folds (N,)."""
    folds = np.empty(num_examples, np.int64)
    folds[sort_by_hash(range(num_examples), hash_salt)] = (
        np.arange(num_examples) * FOLDS // max(1, num_examples)
    )
    return folds


@lru_cache(maxsize=16)
def nested_fold_train_and_test_masks(task: SentenceTask) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of the training and the test examples of 110 models (N, 110).

    The first ten models are those of the outer folds, then come those of the inner folds of
    each outer one.
    """
    folds = [task.split_or_fold_numbers]
    for fold in range(FOLDS):
        train = np.flatnonzero(task.split_or_fold_numbers != fold)
        inner = np.full(len(task), -1)  # the test examples of the outer fold are in none
        inner[train] = assign_folds_by_hash(f"{task.name} within {fold}", len(train))
        folds.append(inner)
    test = np.array([each == fold for each in folds for fold in range(FOLDS)])
    known = np.repeat([each >= 0 for each in folds], FOLDS, axis=0)
    return (known & ~test).T.copy(), test.T.copy()


# Tasks generated here, of sentences in the grammar of the stories.
#
# A bag of words does not solve them: what differs between sentences is who acts on whom, the
# order of events, what a negation denies, or whose feeling it is. Their words are nearly the
# same as those of a paraphrase.

RelatednessLevel = Literal["same", "near", "turned", "other", "far"]
"""The relation of a pair's second sentence to its first: the keys of :data:`SCORES`."""
SCORES: dict[RelatednessLevel, float] = {
    "same": 5.0,
    "near": 3.5,
    "turned": 2.5,
    "other": 2.0,
    "far": 1.0,
}
"""The relatedness of two sentences, by how the second was made."""
WEIGHTS: dict[RelatednessLevel, int] = {"same": 3, "near": 1, "turned": 3, "other": 1, "far": 2}
PAIRS = {TRAIN: 700, TRIAL: 200, TEST: 500}
SINGLE = 600  # sentences of a task with classes; half of each class
Pair = tuple[str, str]


def make_story_tasks() -> dict[str, SentenceTask]:
    """Generate small counterparts of SICK, SUBJ, MR, MPQA and CR, always the same."""
    rng = Random("relatedness")
    kinds: list[RelatednessLevel] = [*WEIGHTS]
    relations = rng.choices(kinds, [*WEIGHTS.values()], k=sum(PAIRS.values()))
    pairs = [rng.choice(PAIR_GENERATORS)(rng, relation) for relation in relations]
    first, second = (
        [sentence.split() for sentence in side] for side in zip(*pairs, strict=True)
    )
    targets = np.array([SCORES[relation] for relation in relations])
    splits = np.repeat([*PAIRS], [*PAIRS.values()])
    tasks = {"relatedness": SentenceTask("relatedness", first, second, targets, splits)}
    for name, make in GENERATORS.items():
        rng, classes = Random(name), dict[str, bool]()
        while len(classes) < SINGLE:  # different sentences of both classes in turn
            label = len(classes) % 2 == 1
            classes.setdefault(make(rng, label), label)
        targets = np.array([*classes.values()], np.float64)
        sentences = [line.split() for line in classes]
        tasks[name] = SentenceTask(
            name, sentences, [], targets, assign_folds_by_hash(name, SINGLE)
        )
    return tasks


def random_agent_recipient_pair(rng: Random, relation: RelatednessLevel) -> Pair:
    """Draw a pair about agent and recipient."""
    setup = random_story_setup(rng)
    event = next(event for event in _endless_random_events(rng, setup) if event.recipient)
    form, other = rng.sample(range(len(event.paraphrases)), 2)
    first = event.paraphrases[form]
    if relation == "same":
        return first, event.paraphrases[other]
    if relation == "turned":
        return first, event.with_agent_and_recipient_swapped.paraphrases[other]
    if relation == "near" and event.thing:
        things = [thing for thing in SUBJECTS[setup.place] if thing != event.thing]
        return first, replace(event, thing=rng.choice(things)).paraphrases[form]
    if relation == "near":
        verbs = [verb for verb in data.REACTIONS if verb != event.verb]
        return first, replace(event, verb=rng.choice(verbs)).paraphrases[form]
    return first, _random_sentence_on_other_event(rng, setup, relation, event)


def random_event_order_pair(rng: Random, relation: RelatednessLevel) -> Pair:
    """Draw a pair about the order of two events."""
    setup = random_story_setup(rng)
    first, second = random_events_of_one_agent(rng, setup)
    form = rng.randrange(2)
    sentence = data.before_and_after_sentences(first, second)[form]
    if relation == "same":
        return sentence, data.before_and_after_sentences(first, second)[1 - form]
    if relation == "turned":
        return sentence, rng.choice(data.before_and_after_sentences(second, first))
    if relation == "near":
        return sentence, rng.choice(first.paraphrases)
    return sentence, _random_sentence_on_other_event(rng, setup, relation, first, second)


def random_negation_scope_pair(rng: Random, relation: RelatednessLevel) -> Pair:
    """Draw a pair about the scope of a negation: of the saying, or of the event."""
    setup = random_story_setup(rng)
    event, speaker = (
        random_events_of_one_agent(rng, setup)[0],
        rng.choice((setup.hero, setup.friend)),
    )
    forms = [
        data.negated_report_paraphrases(speaker, event, speaker_denies=denied)
        for denied in (False, True)
    ]
    rng.shuffle(forms)
    form = rng.randrange(2)
    if relation in ("same", "turned"):
        return forms[0][form], forms[relation == "turned"][1 - form]
    if relation == "near":
        return forms[0][form], rng.choice(event.paraphrases)
    return forms[0][form], _random_sentence_on_other_event(rng, setup, relation, event)


PAIR_GENERATORS = (
    random_agent_recipient_pair,
    random_event_order_pair,
    random_negation_scope_pair,
)


def _endless_random_events(rng: Random, setup: StorySetup) -> Iterator[Event]:
    while True:
        yield random_event(rng, setup)


def _random_sentence_on_other_event(
    rng: Random, setup: StorySetup, relation: RelatednessLevel, *events: Event
) -> str:
    """Draw a sentence on another event: of the same people, or of others elsewhere."""
    if relation == "far":
        while True:
            other = random_story_setup(rng)
            people = {other.hero, other.friend} & {setup.hero, setup.friend}
            if other.place != setup.place and not people:
                return rng.choice(random_event(rng, other).paraphrases)
    verbs, things = {one.verb for one in events}, {one.thing for one in events}
    return next(
        rng.choice(event.paraphrases)
        for event in _endless_random_events(rng, setup)
        if event.verb not in verbs and event.thing not in things
    )


def random_sentence_with_feeling(rng: Random, is_subjective: bool) -> str:
    """Draw a sentence with a feeling, of the narrator if subjective, else of a person."""
    setup = random_story_setup(rng)
    person = rng.choice((setup.hero, setup.friend))
    sentence = rng.choice(random_event(rng, setup).paraphrases)
    adverb = rng.choice(("luckily", "sadly"))
    if rng.random() < 0.75:
        if is_subjective:
            return f"{adverb} , {person} knew that {sentence}"
        return f"{person} knew that {adverb} , {sentence}"
    opinion = f"the {rng.choice([*SUBJECTS[setup.place]])} was {rng.choice(GOOD + BAD)}"
    return opinion if is_subjective else rng.choice((f"{person} knew that {opinion}", sentence))


def random_opinion_sentence(rng: Random, is_good: bool) -> str:
    """Draw an opinion about a thing."""
    thing, other = rng.sample([*SUBJECTS[rng.choice([*SUBJECTS])]], 2)
    return data.random_opinion_of_thing(rng, thing, other, is_good)


def random_opinion_phrase(rng: Random, is_good: bool) -> str:
    """Draw a phrase that praises or blames, or denies the contrary."""
    thing = rng.choice([*SUBJECTS[rng.choice([*SUBJECTS])]])
    denied = rng.random() < 0.3
    word = rng.choice(GOOD if is_good != denied else BAD)
    mood = rng.choice(GLAD if is_good != denied else SAD)
    denial, really = "not " * denied, rng.choice(("", "really "))
    return rng.choice(
        (f"{denial}a {really}{word} {thing}", f"was {denial}{really}{mood} about the {thing}")
    )


def random_customer_sentence(rng: Random, customer_is_glad: bool) -> str:
    """Draw a sentence about a gift whose recipient is glad or sad, and the giver either."""
    setup = random_story_setup(rng)
    giver, customer = rng.sample([setup.hero, setup.friend], 2)
    thing = rng.choice([*SUBJECTS[setup.place]])
    got = rng.choice(Event(giver, "gave", thing, customer).paraphrases)
    moods, contrary = (GLAD, SAD) if customer_is_glad else (SAD, GLAD)
    liked = "liked" if customer_is_glad else "hated"
    if rng.random() < 0.6:
        mood = f"{got} , {customer} was {rng.choice(moods)} about it"
        return rng.choice((mood, f"{got} , {customer} {liked} it"))
    both = [f"{customer} was {rng.choice(moods)}", f"{giver} was {rng.choice(contrary)}"]
    rng.shuffle(both)
    return " , ".join((got, *both))


GENERATORS: dict[str, Callable[[Random, bool], str]] = {
    "teller": random_sentence_with_feeling,
    "opinion": random_opinion_sentence,
    "phrase": random_opinion_phrase,
    "customer": random_customer_sentence,
}
"""Generators of the tasks with classes."""

# Tasks in files.

SICK = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
"""The files of SemEval-2014; ``SICK.txt`` has all pairs, and the split of each in a column."""
SICK_SPLITS = {"TRAIN": TRAIN, "TRIAL": TRIAL, "TEST": TEST}
CLASSES = {
    "MR": ("rt-polarity.neg", "rt-polarity.pos"),
    "CR": ("custrev.neg", "custrev.pos"),
    "SUBJ": ("plot.tok.gt9.5000", "quote.tok.gt9.5000"),
    "MPQA": ("mpqa.neg", "mpqa.pos"),
}
"""The files of classes 0 and 1."""
NAMES = "SICK", *CLASSES
ENCODINGS = "utf-8", "windows-1252"  # MR and SUBJ are in the second


class SentenceTasks(Dataset[SentenceTask], Mapping[str, SentenceTask]):
    """Tasks by name: a :class:`Dataset` with tasks in place of splits."""

    def __init__(
        self,
        source: Source,
        names: Sequence[str],
        read: Callable[[], Mapping[str, SentenceTask]],
        key: Callable[[], str],
    ) -> None:
        super().__init__(source, lambda: (read(), ""), key)
        self.names = tuple(names)

    def __getitem__(self, name: str) -> SentenceTask:
        if name not in self.names:
            raise KeyError(name)
        return self._checksum_verified_splits[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _digest(self) -> bytes:
        checksums = (task.checksum for task in self._splits.values())
        return hashlib.sha256("\n".join(checksums).encode()).digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {len(task):,}" for name, task in self.items())
        return f"{self.kind} data: {self.name}: {counts} examples"


def load(source: Source, path: Path | None = None) -> SentenceTasks:
    """Return the tasks of a source.

    The files of :data:`SICK` and :data:`CLASSES` are in the folder or two below.
    """
    if source is STORY_TASKS:
        return SentenceTasks(source, ("relatedness", *GENERATORS), make_story_tasks, str)
    files = _require_task_files(path or data_folder() / source.name)
    return SentenceTasks(
        source,
        NAMES,
        lambda: {name: _read_task(name, paths) for name, paths in files.items()},
        lambda: hash_file_stats(chain(*files.values())),
    )


def _require_task_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each task, its classes or splits in their order."""
    # "**" would not follow links to folders
    found = chain.from_iterable(sorted(folder.glob(depth)) for depth in ("*", "*/*", "*/*/*"))
    paths = {path.name: path for path in found}
    names = {"SICK": ("SICK.txt",) if "SICK.txt" in paths else SICK, **CLASSES}
    if missing := [file for files in names.values() for file in files if file not in paths]:
        raise FileNotFoundError(
            f"sentence-tasks are not whole in {folder}: there is no {missing[0]} "
            f"({SENTENCE_TASKS.citation}). Put it there, or name the folder that has the files "
            "of all tasks: sentence-tasks=PATH."
        )
    return {task: [paths[file] for file in files] for task, files in names.items()}


def _read_task(name: str, files: Sequence[Path]) -> SentenceTask:
    """Read a task from its files; blank lines are left out."""
    texts = [read_text(file, ENCODINGS).removeprefix("\ufeff") for file in files]
    if name == "SICK":
        pairs = chain.from_iterable(map(_parse_sick_pairs, files, texts, range(3)))
        first, second, scores, parts = zip(*pairs, strict=True)
        targets, splits = np.array(scores), np.array(parts)
    else:
        lines = [[line for line in text.split("\n") if line.strip()] for text in texts]
        first, second = [*chain(*lines)], []
        targets = np.repeat([0.0, 1.0], [*map(len, lines)])
        splits = assign_folds_by_hash(name, len(first))
    return SentenceTask(name, _tokenize_lines(first), _tokenize_lines(second), targets, splits)


def _parse_sick_pairs(
    file: Path, text: str, split_number: int
) -> Iterable[tuple[str, str, float, int]]:
    """Return the sentences, the relatedness and the split of each pair of a file."""
    import pandas as pd  # late: listing experiments does not take it

    table = pd.read_csv(StringIO(text), sep="\t", quoting=csv.QUOTE_NONE, na_filter=False)
    try:
        one_file = "SemEval_set" in table
        table["split"] = table.SemEval_set.map(SICK_SPLITS) if one_file else split_number
        table = table[["sentence_A", "sentence_B", "relatedness_score", "split"]]
        table = table.astype({"relatedness_score": float, "split": int})
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{file}: expected the columns sentence_A, sentence_B and relatedness_score, found "
            f"{error}."
        ) from None
    if not table.relatedness_score.between(1, 5).all():
        raise ValueError(f"{file}: a relatedness_score is not from 1 to 5.")
    return table.itertuples(index=False, name=None)


def _tokenize_lines(lines: Sequence[str]) -> TokenizedSentences:
    if not lines:
        return []
    return load_or_tokenize(
        "words", "\n".join(lines), lambda: [tokenize(line) for line in lines]
    )
