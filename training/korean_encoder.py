"""Training of the Korean encoder: a small network that reads a text once for everything.

``python -m training.korean_encoder DATA_DIR EARLIER --out MODELS`` makes ``encoder_ko.npz``. It
begins with the vectors of morphemes that Kiwi has (``training/kiwi_vectors.py``), learns from film
reviews, two of them often joined to one text, and then from all Korean data sets and everyday
sentences. In the folder EARLIER it leaves one that has not read the later everyday sentences.
This needs torch.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from absa.offline.models import loading
from absa.offline.models.folder import record
from absa.offline.models.hashing import keys_of
from absa.offline.models.morpheme_encoder import (
    BLOCKS,
    CLAUSES,
    CONVOLUTIONS,
    HEADS,
    PIECE,
    REACH,
    TABLES,
)
from absa.offline.models.morpheme_inputs import (
    BUCKETS,
    DOMAINS,
    FACTS,
    inputs_of,
    name_of,
)
from absa.offline.models.network import LABELS as TAGS
from absa.offline.models.polarity_model import LABELS as POLARITIES
from absa.offline.text.annotations import MIXED, NEGATIVE, NEUTRAL, POSITIVE, Token, View
from absa.offline.text.views import view_of
from absa.offline.training.polarity_model import label_of
from absa.offline.training.tagger import labels as tags_of
from absa.schemas.sample import GoldAspect
from training import everyday_data, kiwi_vectors
from training.polarity_model import read_rows
from training.texts import kept

TEXT_LABELS = (*POLARITIES, MIXED)
_SKIP = -100
#: Width of the layers, and of what is learned of words and of pieces.
WIDTH, OWN = 128, 64
EMOTIONS = 44


@dataclass
class Example:
    """A text with everything that is to be learned from it."""

    words: Any
    grams: Any
    facts: Any
    clauses: Any
    domain: int
    tags: list[int] | None = None
    #: First and last morpheme, polarity, weight, and the morphemes that tell it.
    spans: list[tuple[int, int, int, float, tuple[int, ...]]] = field(default_factory=list)
    label: int = _SKIP
    #: Whether the label can only be positive or negative.
    two_way: bool = False
    unnamed: list[float] | None = None
    emotions: Any = None
    weight: float = 1.0


class Block(nn.Module):  # type: ignore[misc]
    """Attention with a say for distance and for clauses, then a wide layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.norm2 = nn.LayerNorm(width)
        self.near = nn.Parameter(torch.zeros(HEADS, 2 * REACH + 1))
        self.clause = nn.Parameter(torch.zeros(HEADS, 2 * CLAUSES + 1))

    def forward(self, x: Any, far: Any, near: Any, clause: Any, drop: float) -> tuple[Any, Any]:
        """What is read, and where it was looked at."""
        b, n, width = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // HEADS) ** 0.5
        scores = scores + far + self.near[:, near] + self.clause[:, clause].transpose(0, 1)
        share = scores.softmax(-1)
        read = (F.dropout(share, drop, self.training) @ v).transpose(1, 2).reshape(b, n, width)
        x = self.norm1(x + F.dropout(self.out(read), drop, self.training))
        y = self.down(F.gelu(self.up(x), approximate="tanh"))
        return self.norm2(x + F.dropout(y, drop, self.training)), share


class Encoder(nn.Module):  # type: ignore[misc]
    """The network with its heads."""

    vectors: Any

    def __init__(self, vectors: Any, own: int, width: int = WIDTH) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.tensor(vectors, dtype=torch.float32))
        self.own = nn.Embedding(own, OWN, padding_idx=0)
        self.grams = nn.Embedding(BUCKETS + 1, OWN, padding_idx=0)
        nn.init.normal_(self.own.weight, std=0.05)
        nn.init.normal_(self.grams.weight, std=0.05)
        self.enter = nn.Linear(vectors.shape[1] + 2 * OWN + FACTS, width)
        self.begin = nn.Embedding(len(DOMAINS), width)
        self.norm = nn.LayerNorm(width)
        self.convs = nn.ModuleList([nn.Linear(3 * width, width) for _ in range(CONVOLUTIONS)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(CONVOLUTIONS)])
        self.blocks = nn.ModuleList([Block(width) for _ in range(BLOCKS)])
        self.tag = nn.Linear(width, len(TAGS))
        self.judge = nn.Linear(2 * width, width)
        self.polarity = nn.Linear(width, len(POLARITIES))
        self.whole = nn.Linear(3 * width, width)
        self.label = nn.Linear(width, len(TEXT_LABELS))
        self.unnamed = nn.Linear(width, len(POLARITIES))
        self.emotions = nn.Linear(width, EMOTIONS)

    def hidden(self, batch: Mapping[str, Any], drop: float) -> tuple[Any, Any]:
        """What the last layer says of the beginning and each morpheme, and where it looks."""
        words, mask = batch["words"], batch["mask"]
        own = torch.where(words < self.own.num_embeddings, words, torch.zeros_like(words))
        x = torch.cat(
            [
                F.embedding(words, self.vectors),
                self.own(own),
                self.grams(batch["grams"]).sum(2),
                batch["facts"],
            ],
            2,
        )
        x = self.enter(F.dropout(x, drop, self.training))
        x = torch.cat([self.begin(batch["domain"])[:, None], x], 1)
        mask = torch.cat([torch.ones_like(mask[:, :1]), mask], 1)
        x = self.norm(x) * mask[..., None]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            left = F.pad(x, (0, 0, 1, 0))[:, :-1]
            right = F.pad(x, (0, 0, 0, 1))[:, 1:]
            y = F.gelu(conv(torch.cat([left, x, right], 2)), approximate="tanh")
            x = norm(x + F.dropout(y, drop, self.training)) * mask[..., None]
        far = (1.0 - mask[:, None, None, :]) * -1e4
        place = torch.arange(x.shape[1])
        near = (place[None, :] - place[:, None]).clamp(-REACH, REACH) + REACH
        clauses = torch.cat([batch["clauses"][:, :1], batch["clauses"]], 1)
        between = (clauses[:, None, :] - clauses[:, :, None]).clamp(-CLAUSES, CLAUSES) + CLAUSES
        share = None
        for block in self.blocks:
            x, share = block(x, far, near, between, drop)
        return x, share

    def heads(self, x: Any, mask: Any, drop: float) -> tuple[Any, Any, Any]:
        """Tags and polarities of morphemes, and what is read of the whole text."""
        first, rest = x[:, :1], x[:, 1:]
        own = torch.cat([x, first.expand_as(x)], 2)
        judged = self.polarity(
            F.dropout(F.gelu(self.judge(own), approximate="tanh"), drop, self.training)
        )
        mean = (rest * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        top = (rest - (1 - mask[..., None]) * 1e4).amax(1)
        whole = F.gelu(self.whole(torch.cat([first[:, 0], mean, top], 1)), approximate="tanh")
        return self.tag(rest), judged, F.dropout(whole, drop, self.training)


class Words:
    """The numbers of words: those of the training texts first, which have a row of their own."""

    def __init__(self, names: Sequence[str], trained: int) -> None:
        self.names = names
        self.trained = trained
        self.numbers = {name: number for number, name in enumerate(names)}

    def __call__(self, names: Iterable[str]) -> Any:
        """The number of each word; 0 where it is not known."""
        return np.array([self.numbers.get(name, 0) for name in names], np.int64)


def example(view: View, words: Callable[[Collection[str]], Any]) -> Example | None:
    """A text without labels; nothing if it is too long or empty."""
    if not view.tokens or len(view.tokens) > PIECE:
        return None
    made = inputs_of(view)
    return Example(words(made.names), made.grams, made.facts, made.clauses, made.domain)


def tokens_in(view: View, start: int, end: int) -> list[int]:
    """The morphemes that touch the characters ``[start, end)``."""
    return [i for i, token in enumerate(view.tokens) if token.start < end and start < token.end]


def with_aspects(
    made: Example, view: View, aspects: Sequence[Mapping[str, Any]], tagged: bool = True
) -> Example:
    """The example with aspects: tags, polarities, what tells them, unnamed judgements."""
    spans = []
    for aspect in aspects:
        if not aspect.get("term") or aspect["polarity"] not in POLARITIES:
            continue
        inside = tokens_in(view, aspect["from"], aspect["to"])
        evidence_tokens: tuple[int, ...] = ()
        evidence = aspect.get("evidence")
        if evidence and evidence != view.text and (at := view.text.find(evidence)) >= 0:
            evidence_tokens = tuple(
                i for i in tokens_in(view, at, at + len(evidence)) if i not in inside
            )
        if inside:
            polarity = POLARITIES.index(aspect["polarity"])
            spans.append((inside[0], inside[-1] + 1, polarity, 1.0, evidence_tokens))
    gold = [
        GoldAspect(**{name: a[name] for name in ("from", "to", "term", "polarity")})
        for a in aspects
        if a.get("term")
    ]
    unnamed = [
        float(any(not a.get("term") and a["polarity"] == word for a in aspects))
        for word in POLARITIES
    ]
    tags = [TAGS.index(tag) for tag in tags_of(view, gold)] if tagged else None
    return replace(made, spans=spans, tags=tags, unnamed=unnamed)


def joined(one: Example, other: Example, joint: Example | None) -> Example:
    """A text made of two: each aspect keeps the polarity that its own half gives it."""
    parts = [one, *([joint] if joint else []), other]
    sizes = [len(part.words) for part in parts]
    by = sum(sizes[:-1])
    clauses, last = [], 0
    for number, part in enumerate(parts):
        # The joint begins the clause of what follows it.
        clauses.append(part.clauses + last)
        if not (joint and number == 1):
            last = int(clauses[-1].max()) + 1
    tags = None
    if one.tags is not None and other.tags is not None:
        tags = [*one.tags, *[0] * (by - sizes[0]), *other.tags]
    moved = [
        (a + by, b + by, p, w, tuple(t + by for t in evidence_tokens))
        for a, b, p, w, evidence_tokens in other.spans
    ]
    unnamed = None
    if one.unnamed and other.unnamed:
        unnamed = [max(pair) for pair in zip(one.unnamed, other.unnamed, strict=True)]
    label = _joint_label(one.label, other.label)
    return Example(
        np.concatenate([p.words for p in parts]),
        np.concatenate([p.grams for p in parts]),
        np.concatenate([p.facts for p in parts]),
        np.concatenate(clauses),
        one.domain if one.domain == other.domain else 0,
        tags,
        [*one.spans, *moved],
        label,
        one.two_way and other.two_way and label != TEXT_LABELS.index(MIXED),
        unnamed,
        None,
        min(one.weight, other.weight),
    )


def _joint_label(one: int, other: int) -> int:
    neutral, mixed = TEXT_LABELS.index(NEUTRAL), TEXT_LABELS.index(MIXED)
    if _SKIP in (one, other):
        return _SKIP
    if one == other or other == neutral:
        return one
    return other if one == neutral else mixed


JOINTS = ("근데", "하지만", "그리고", "그런데", "다만", "그래도", "또", "반면")


def joints(words: Words) -> list[Example | None]:
    """What stands between two joined texts; often nothing does."""
    made = [example(view_of(word, "ko"), words) for word in JOINTS]
    return [*made, *[None] * len(made)]


def batch_of(texts: Sequence[Example]) -> dict[str, Any]:
    """Texts side by side."""
    size, longest = len(texts), max(len(t.words) for t in texts)
    words = np.zeros((size, longest), np.int64)
    grams = np.zeros((size, longest, texts[0].grams.shape[1]), np.int64)
    facts = np.zeros((size, longest, FACTS), np.float32)
    clauses = np.zeros((size, longest), np.int64)
    mask = np.zeros((size, longest), np.float32)
    for row, text in enumerate(texts):
        n = len(text.words)
        words[row, :n], grams[row, :n], facts[row, :n] = text.words, text.grams, text.facts
        clauses[row, :n], mask[row, :n] = text.clauses, 1.0
    arrays = {"words": words, "grams": grams, "facts": facts, "clauses": clauses, "mask": mask}
    made = {name: torch.from_numpy(array) for name, array in arrays.items()}
    made["domain"] = torch.tensor([t.domain for t in texts])
    return made


#: How much each question counts.
_TAG, _LABEL, _UNNAMED, _TOLD, _EMOTIONS = 1 / 12, 0.6, 0.3, 0.2, 0.3
#: How often a text is read without the lexicon, and how many words are hidden.
_WITHOUT_LEXICON, _HIDDEN = 0.25, 0.06


def loss_of(model: Encoder, texts: Sequence[Example], drop: float) -> Any:
    """What the model has still to learn of a batch."""
    return read_loss(model, texts, drop)[0]


def read_loss(model: Encoder, texts: Sequence[Example], drop: float) -> tuple[Any, Any, Any]:
    """What it has still to learn, what its last layer says of the batch, and the batch."""
    batch = batch_of(texts)
    blind = torch.rand(len(texts)) < _WITHOUT_LEXICON
    batch["facts"][blind, :, :5] = 0.0
    hidden = torch.rand(batch["words"].shape) < _HIDDEN
    batch["words"] = torch.where(hidden, torch.zeros_like(batch["words"]), batch["words"])
    half = torch.rand(batch["words"].shape) < 0.5
    batch["grams"] = batch["grams"] * ~(hidden & half)[..., None]
    x, share = model.hidden(batch, drop)
    tags, judged, whole = model.heads(x, batch["mask"], drop)
    weights = torch.tensor([t.weight for t in texts])
    norm = weights.sum()
    total = x.new_zeros(())
    if any(text.tags for text in texts):
        wanted = torch.full(tags.shape[:2], _SKIP)
        for row, text in enumerate(texts):
            if text.tags:
                wanted[row, : len(text.tags)] = torch.tensor(text.tags)
        each = F.cross_entropy(tags.transpose(1, 2), wanted, reduction="none", ignore_index=_SKIP)
        total = total + _TAG * (each.sum(1) * weights).sum() / norm
    spans = [(row, *span) for row, text in enumerate(texts) for span in text.spans]
    if spans:
        read = torch.stack([judged[r, a + 1 : b + 1].mean(0) for r, a, b, *_ in spans])
        wanted = torch.tensor([s[3] for s in spans])
        w = torch.tensor([s[4] for s in spans]) * weights[[s[0] for s in spans]]
        total = total + (F.cross_entropy(read, wanted, reduction="none") * w).sum() / norm
        looks = [
            -torch.log(
                share[r, 0, a + 1 : b + 1][:, [t + 1 for t in evidence_tokens]].sum(1).mean() + 1e-4
            )
            * weights[r]
            for r, a, b, _, _, evidence_tokens in spans
            if evidence_tokens
        ]
        if looks:
            total = total + _TOLD * torch.stack(looks).sum() / norm
    label = torch.tensor([t.label for t in texts])
    scores = model.label(whole)
    two = torch.tensor([t.two_way for t in texts])
    closed = torch.zeros_like(scores)
    closed[:, 2:] = two[:, None] * -1e4
    if (label >= 0).any():
        each = F.cross_entropy(scores + closed, label, reduction="none", ignore_index=_SKIP)
        total = total + _LABEL * (each * weights).sum() / norm
        # The beginning is what an unnamed aspect is judged by: a text that judges one way.
        one_way = label.where(label < len(POLARITIES), torch.tensor(_SKIP))
        polar = judged[:, 0] + closed[:, : len(POLARITIES)]
        each = F.cross_entropy(polar, one_way, reduction="none", ignore_index=_SKIP)
        total = total + 0.5 * _LABEL * (each * weights).sum() / norm
    rows = [row for row, t in enumerate(texts) if t.unnamed is not None]
    if rows:
        wanted = torch.tensor([texts[row].unnamed for row in rows])
        each = F.binary_cross_entropy_with_logits(
            model.unnamed(whole[rows]), wanted, reduction="none"
        ).sum(1)
        total = total + _UNNAMED * (each * weights[rows]).sum() / norm
    rows = [row for row, t in enumerate(texts) if t.emotions is not None]
    if rows:
        wanted = torch.tensor(np.stack([texts[row].emotions for row in rows]))
        each = F.binary_cross_entropy_with_logits(
            model.emotions(whole[rows]), wanted, reduction="none"
        ).mean(1)
        total = total + _EMOTIONS * 4 * (each * weights[rows]).sum() / norm
    return total, x, batch


_Text = TypeVar("_Text", bound=Example)


def batches(texts: Sequence[_Text], size: int, rng: random.Random) -> list[list[_Text]]:
    """Texts of like length together."""
    order = sorted(texts, key=lambda t: len(t.words) + rng.random() * 6)
    made = [list(order[i : i + size]) for i in range(0, len(order), size)]
    rng.shuffle(made)
    return made


def fit(
    model: Encoder,
    rounds: Sequence[Sequence[Example]],
    *,
    rate: float,
    size: int = 48,
    drop: float = 0.15,
    decay: float = 0.02,
    seed: int = 0,
) -> None:
    """Adam with a rate that rises and falls linearly over the rounds."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay, fused=True)
    plan = [batch for texts in rounds for batch in batches(texts, size, rng)]
    steps = len(plan)
    warm = 0.06
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda s: min((s + 1) / (warm * steps), max(0.0, (steps - s) / (steps * (1 - warm)))),
    )
    model.train()
    for batch in plan:
        loss = loss_of(model, batch, drop)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    model.eval()


#: Subjects and topics: what stands before one of them is often what a film review judges.
_MARKS = frozenset({"JKS", "JX", "JKO"})


def _is_compound(one: Token, other: Token) -> bool:
    return one.tag == "NNG" and one.end == other.start


def subjects(view: View) -> Iterator[tuple[int, int]]:
    """Nouns that a film review is likely to judge."""
    tokens = view.tokens
    for i in range(len(tokens) - 1):
        if tokens[i].tag == "NNG" and tokens[i + 1].tag in _MARKS:
            first = i
            while first and _is_compound(tokens[first - 1], tokens[first]):
                first -= 1
            yield first, i + 1


#: The number of components taken of Kiwi's vectors.
_COMPONENTS = 96
#: How often a word must occur in the data sets, and in everyday sentences, to have a row.
_SEEN, _SEEN_EVERYDAY = 3, 2
#: Film reviews: rounds, rate. In each half of them stand alone, the others are joined in pairs.
_FILM_ROUNDS, _FILM_RATE = 2, 1.2e-3
#: All data sets: rounds, rate, how much an everyday sentence counts, and how many translated
#: reviews, comments and film reviews a round has beside all everyday sentences.
_ROUNDS, _RATE, EVERYDAY = 3, 1e-3, 3.0
_OTHERS, _COMMENTS, _FILMS = 2500, 1000, 1000
#: How often an everyday sentence is read with its domain, and the longest that are joined.
_WITH_DOMAIN, _SHORT = 0.3, 26
_SUBJECTS, _SUBJECT = 3, 0.3


def label_in(row: Mapping[str, Any]) -> int:
    """The number of a text's label."""
    polarities = {aspect["polarity"] for aspect in row["aspects"]}
    mixed = MIXED if {POSITIVE, NEGATIVE} <= polarities else label_of(polarities)
    label = row.get("label") or mixed
    return TEXT_LABELS.index(label) if label in TEXT_LABELS else _SKIP


@dataclass
class Texts:
    """The texts to learn from, and the words in them with their vectors."""

    words: Words
    vectors: Any
    films: list[Example]
    everyday: list[Example]
    later: list[Example]
    others: list[Example]
    comments: list[Example]


Read = list[tuple[Mapping[str, Any], View]]


def _read(rows: Iterable[Mapping[str, Any]]) -> Read:
    return [(row, view_of(row["text"], "ko", row.get("domain"))) for row in rows]


def _names(texts: Read) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _, view in texts:
        counts.update({name_of(token.form, token.tag) for token in view.tokens})
    return counts


def words_of(sets: Sequence[Read], own: Read) -> tuple[Words, int, Any]:
    """The words, how many the data sets have, and the vectors of all.

    First come the words of the data sets, then more of the everyday sentences, then those that
    Kiwi knows besides; names of its dictionary only if they occur.
    """
    counts = sum((_names(texts) for texts in sets), Counter())
    first = sorted((n for n, c in counts.items() if c >= _SEEN), key=lambda n: (-counts[n], n))
    own_counts = _names(own)
    more = sorted({n for n, c in own_counts.items() if c >= _SEEN_EVERYDAY} - set(first))
    every = counts | own_counts
    rows = {
        name_of(*key): row
        for key, row in kiwi_vectors.vectors(_COMPONENTS).items()
        if key[1] != "NNP" or name_of(*key) in every
    }
    rest = sorted(set(rows) - set(first) - set(more))
    names = ["", *first, *more, *rest]
    table = np.zeros((len(names), _COMPONENTS), np.float32)
    for number, name in enumerate(names):
        if name in rows:
            table[number] = rows[name]
    return Words(names, 1 + len(first) + len(more)), 1 + len(first), table


def _examples(texts: Read, words: Words, tagged: bool) -> list[Example]:
    made = []
    for row, view in texts:
        read = example(view, words)
        if read is not None:
            if tagged:
                read = with_aspects(read, view, row["aspects"])
            read.label = label_in(row)
            made.append(read)
    return made


def _comments(texts: Read, words: Words) -> list[Example]:
    """Comments with the emotions in them."""
    emotions = sorted({emotion for row, _ in texts for emotion in row["emotions"]})[:EMOTIONS]
    made = []
    for row, view in texts:
        read = example(view, words)
        if read is not None:
            read.label = label_in(row)
            shown = [float(emotion in row["emotions"]) for emotion in emotions]
            read.emotions = np.array(shown, np.float32)
            made.append(read)
    return made


def _films(texts: Read, words: Words) -> list[Example]:
    """Film reviews; what their subjects are is as good or bad as the film, more or less."""
    made = []
    for row, view in texts:
        read = example(view, words)
        if read is not None and not kept(row["text"]):
            read.label, read.two_way = label_in(row), True
            read.spans = [
                (first, last, read.label, _SUBJECT, ())
                for first, last in islice(subjects(view), _SUBJECTS)
            ]
            made.append(read)
    return made


def texts_of(data: Path, every: int) -> tuple[Texts, int]:
    """All texts, but of film reviews one of ``every``, and how many words the data sets have."""
    train = data / "train"
    reviews = islice(read_rows(train / "nsmc_raw.jsonl.gz"), 0, None, every)
    films = _read(review for review in reviews if review["label"] != NEUTRAL)
    named, unnamed = (_read(read_rows(train / f"{n}.jsonl")) for n in ("mabsa_ko", "korsemeval"))
    comments = _read(read_rows(train / "kote.jsonl.gz"))
    own = _read(everyday_data.rows("ko"))
    words, first, table = words_of([films, named, unnamed, comments], own)
    read = [replace(each, weight=EVERYDAY) for each in _examples(own, words, True)]
    early = len(_examples(own[: everyday_data.EARLIER["ko"]], words, False))
    texts = Texts(
        words,
        table,
        _films(films, words),
        read[:early],
        read[early:],
        _examples(named, words, True) + _examples(unnamed, words, False),
        _comments(comments, words),
    )
    return texts, first


def _pairs(
    texts: Sequence[Example], count: int, between: Sequence[Example | None], rng: random.Random
) -> list[Example]:
    short = [text for text in texts if len(text.words) <= _SHORT]
    made = []
    for _ in range(count):
        one, other = rng.sample(short, 2)
        made.append(joined(one, other, rng.choice(between)))
    return made


def of_films(texts: Texts, first: int) -> Encoder:
    """An encoder that has read film reviews."""
    rng = random.Random(0)
    torch.manual_seed(0)
    model = Encoder(texts.vectors, first)
    between = joints(texts.words)
    rounds = []
    for _ in range(_FILM_ROUNDS):
        films = rng.sample(texts.films, len(texts.films))
        half = len(films) // 2
        rounds.append([*films[:half], *_pairs(films[half:], half // 2, between, rng)])
    fit(model, rounds, rate=_FILM_RATE, size=64)
    return model


def of_everything(texts: Texts, base: Mapping[str, Any], own: Sequence[Example]) -> Encoder:
    """An encoder that has read all data sets, and these everyday sentences."""
    rng = random.Random(1)
    torch.manual_seed(1)
    model = Encoder(texts.vectors, texts.words.trained)
    state = model.state_dict()
    for name, value in base.items():
        if name == "own.weight":
            state[name][: len(value)] = value
            state[name][len(value) :] = 0.0
        elif name != "vectors":
            state[name] = value
    model.load_state_dict(state)
    between = joints(texts.words)
    rounds = []
    for _ in range(_ROUNDS):
        # M-ABSA always with its domain: what it leaves unmarked says nothing about other texts.
        read = [each if rng.random() < _WITH_DOMAIN else replace(each, domain=0) for each in own]
        rounds.append(
            [
                *read,
                *_pairs(read, len(read), between, rng),
                *rng.sample(texts.others, _OTHERS),
                *rng.sample(texts.comments, _COMMENTS),
                *rng.sample(texts.films, _FILMS),
            ]
        )
    fit(model, rounds, rate=_RATE)
    return model


def save(model: Encoder, words: Words, path: Path) -> None:
    """Write the file that the analyzer reads."""
    keys = keys_of(words.names[1:])
    order = np.argsort(keys, kind="stable")
    arrays: dict[str, Any] = {"keys": keys[order], "rows": (order + 1).astype(np.int32)}
    for name, value in model.state_dict().items():
        array = value.numpy()
        short = name.removesuffix(".weight")
        if short in TABLES:
            scale = np.maximum(np.abs(array).max(axis=0), 1e-6) / 127
            arrays[short] = np.clip(np.round(array / scale), -127, 127).astype(np.int8)
            arrays[f"{short}_scale"] = scale.astype(np.float32)
        elif not name.startswith("emotions"):
            arrays[name] = array.astype(np.float16)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def main() -> None:
    """Make the encoder, and the one that the readers are fitted with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("earlier", type=Path, help="folder for the one to fit readers with")
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    parser.add_argument("--every", type=int, default=1, help="take one film review in N")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts, first = texts_of(options.data, options.every)
    options.earlier.mkdir(parents=True, exist_ok=True)
    base = options.earlier / "films.pt"
    if not base.exists():
        torch.save(of_films(texts, first).state_dict(), base)
    state = torch.load(base, weights_only=True)
    for folder, own in (
        (options.earlier, texts.everyday),
        (options.out, texts.everyday + texts.later),
    ):
        path = loading.encoder_file(folder, "ko")
        save(of_everything(texts, state, own), texts.words, path)
        record(folder, [path.name])


if __name__ == "__main__":
    main()
