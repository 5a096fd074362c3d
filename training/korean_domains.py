"""Training of the weights with which the Korean encoder reads texts of M-ABSA's domains.

``python -m training.korean_domains DATA EARLIER --out MODELS`` adds them to the ``encoder_ko.npz``
that ``training.korean_encoder`` has left in both folders. All layers begin as they are there; the
tables of morphemes stay. They learn tags, polarities, labels and unnamed judgements of M-ABSA and
of everyday sentences of its domains, and the categories of M-ABSA's aspects and unnamed judgements.
One text of M-ABSA in ten is left out (`training.categories.left_out`), so that it can be seen how
much these categories are worth. This needs torch.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from absa.nodes.categories import spelling
from absa.offline.models import loading
from absa.offline.models.folder import ModelFolder, record
from absa.offline.models.morpheme_encoder import (
    CATEGORIES,
    OF_DOMAINS,
    TABLES,
    MorphemeEncoder,
)
from absa.offline.models.morpheme_inputs import DOMAINS
from absa.offline.text.views import view_of
from training import everyday_data, korean_encoder
from training.categories import SLIPS, left_out, parts_of
from training.korean_encoder import WIDTH, Encoder, Example
from training.polarity_model import read_rows

#: Rounds, rate, texts of a step, and how much categories count. An everyday sentence counts as much
#: as in `training.korean_encoder`.
_ROUNDS, _RATE, _SIZE, _CATEGORY = 16, 1e-3, 48, 1.0
_DROP, _DECAY, _WARM = 0.25, 0.02, 0.06
_CLOSED = -1e4
Category = tuple[str, str]


@dataclass
class Sorted(Example):
    """A text with the numbers of the categories of its aspects, and of what it does not name."""

    sorts: list[tuple[int, int, list[int]]] = field(default_factory=list)
    unnamed_sorts: list[int] = field(default_factory=list)


def sharing(categories: Sequence[Category]) -> Any:
    """Which scores make that of a category: its own, its entity's, its attribute's."""
    parts = [parts_of(name) for _, name in categories]
    entities = sorted({entity for entity, _ in parts})
    attributes = sorted({attribute for _, attribute in parts})
    rows = [
        [
            *(float(other == own) for other in categories),
            *(float(entity == each) for each in entities),
            *(float(attribute == each) for each in attributes),
        ]
        for own, (entity, attribute) in zip(categories, parts, strict=True)
    ]
    return torch.tensor(rows)


class DomainEncoder(Encoder):
    """The network with heads for categories."""

    shared: Any
    closed: Any

    def __init__(self, vectors: Any, own: int, categories: Sequence[Category]) -> None:
        super().__init__(vectors, own)
        self.register_buffer("shared", sharing(categories))
        scores = self.shared.shape[1]
        self.sort = nn.Linear(2 * WIDTH, WIDTH)
        self.category = nn.Linear(WIDTH, scores)
        self.sort_text = nn.Linear(3 * WIDTH, WIDTH)
        self.text_category = nn.Linear(WIDTH, scores)
        closed = [[_CLOSED * (own != domain) for own, _ in categories] for domain in DOMAINS]
        self.register_buffer("closed", torch.tensor(closed))

    def categories(self, x: Any, batch: Mapping[str, Any], drop: float) -> tuple[Any, Any]:
        """Scores of categories for each morpheme, and for the whole text."""
        first, rest, mask = x[:, :1], x[:, 1:], batch["mask"][..., None]
        own = torch.cat([rest, first.expand_as(rest)], 2)
        read = F.gelu(self.sort(own), approximate="tanh")
        scores = self.category(F.dropout(read, drop, self.training)) @ self.shared.T
        mean, top = (rest * mask).sum(1) / mask.sum(1), (rest + (1 - mask) * _CLOSED).amax(1)
        whole = torch.cat([first[:, 0], mean, top], 1)
        read = F.gelu(self.sort_text(whole), approximate="tanh")
        of_text = self.text_category(F.dropout(read, drop, self.training)) @ self.shared.T
        return scores, of_text


def categories_of(rows: Iterable[Mapping[str, Any]]) -> list[Category]:
    """The categories of the data, each with its domain."""
    return sorted(
        {
            (row["domain"], aspect["category"])
            for row in rows
            for aspect in row["aspects"]
            if spelling(aspect["category"]) not in SLIPS
        }
    )


class Numbers:
    """The rows of morphemes in the tables of an encoder."""

    def __init__(self, encoder: MorphemeEncoder) -> None:
        self._encoder = encoder

    def __call__(self, names: Collection[str]) -> Any:
        """The row of each morpheme."""
        return self._encoder.numbers(names).astype(np.int64)


def examples(
    rows: Iterable[Mapping[str, Any]], words: Numbers, categories: Sequence[Category]
) -> list[Sorted]:
    """What is to be learned of texts; everyday sentences have no categories."""
    number_of = {category: number for number, category in enumerate(categories)}
    made = []
    for row in rows:
        view = view_of(row["text"], "ko", row["domain"])
        read = korean_encoder.example(view, words)
        if read is None:
            continue
        read = korean_encoder.with_aspects(read, view, row["aspects"])
        read.label = korean_encoder.label_in(row)
        read.weight = korean_encoder.EVERYDAY if "label" in row else 1.0
        places: dict[tuple[int, int], set[int]] = {}
        unnamed = set()
        for aspect in row["aspects"]:
            number = number_of.get((row["domain"], aspect.get("category", "")))
            if number is None:
                continue
            if not aspect["term"]:
                unnamed.add(number)
            elif inside := korean_encoder.tokens_in(view, aspect["from"], aspect["to"]):
                places.setdefault((inside[0], inside[-1] + 1), set()).add(number)
        made.append(
            Sorted(
                **vars(read),
                sorts=[(*place, sorted(numbers)) for place, numbers in places.items()],
                unnamed_sorts=sorted(unnamed),
            )
        )
    return made


def begun(encoder: MorphemeEncoder, categories: Sequence[Category]) -> DomainEncoder:
    """A network that reads as the encoder does, with new heads for categories."""
    torch.manual_seed(2)
    tables = {name: encoder.tables[name] * encoder.scales[name] for name in TABLES}
    model = DomainEncoder(tables["vectors"], len(tables["own"]), categories)
    state = model.state_dict()
    for name, weights in encoder.weights.items():
        state[name] = torch.tensor(weights)
    for name in ("own", "grams"):
        state[f"{name}.weight"] = torch.tensor(tables[name])
    model.load_state_dict(state)
    for name in ("own", "grams"):
        getattr(model, name).weight.requires_grad_(False)
    return model


def loss_of(model: DomainEncoder, texts: Sequence[Sorted], drop: float) -> Any:
    """What the model has still to learn of a batch."""
    total, x, batch = korean_encoder.read_loss(model, texts, drop)
    scores, of_text = model.categories(x, batch, drop)
    closed = model.closed[batch["domain"]]
    read = [
        (scores[row, first:last].mean(0) + closed[row], numbers)
        for row, text in enumerate(texts)
        for first, last, numbers in text.sorts
    ]
    read += [
        (of_text[row] + closed[row], text.unnamed_sorts)
        for row, text in enumerate(texts)
        if text.unnamed_sorts
    ]
    if read:
        missed = [-each.log_softmax(0)[numbers].mean() for each, numbers in read]
        total = total + _CATEGORY * torch.stack(missed).sum() / len(texts)
    return total


def fit(model: DomainEncoder, texts: Sequence[Sorted], rounds: int = _ROUNDS) -> None:
    """Adam with a rate that rises and falls linearly."""
    rng = random.Random(0)
    torch.manual_seed(0)
    learning = [weights for weights in model.parameters() if weights.requires_grad]
    optimiser = torch.optim.AdamW(learning, lr=_RATE, weight_decay=_DECAY, fused=True)
    plan = [batch for _ in range(rounds) for batch in korean_encoder.batches(texts, _SIZE, rng)]
    model.train()
    for step, batch in enumerate(plan):
        rise, fall = (step + 1) / (_WARM * len(plan)), (1 - step / len(plan)) / (1 - _WARM)
        for group in optimiser.param_groups:
            group["lr"] = _RATE * min(rise, fall)
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, batch, _DROP)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
    model.eval()


def added_to(path: Path, model: DomainEncoder, categories: Sequence[Category]) -> None:
    """Write the weights into an encoder's file."""
    with np.load(path) as file:
        arrays = {
            name: value
            for name, value in file.items()
            if not name.startswith(OF_DOMAINS) and name != CATEGORIES
        }
    beside = {"shared", "closed", *(f"{name}.weight" for name in TABLES), "vectors"}
    for name, value in model.state_dict().items():
        if name in beside or name.startswith("emotions"):
            continue
        if name.startswith(("category.", "text_category.")):
            value = model.shared @ value
        arrays[f"{OF_DOMAINS}{name}"] = value.numpy().astype(np.float16)
    lines = "\n".join(f"{domain}\t{name}" for domain, name in categories)
    arrays[CATEGORIES] = np.frombuffer(lines.encode("utf-8"), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def main() -> None:
    """Add weights for M-ABSA's domains to encoders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("earlier", type=Path, help="folder of the one to fit readers with")
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = list(read_rows(options.data / "train" / "mabsa_ko.jsonl"))
    categories = categories_of(rows)
    learned = [row for number, row in enumerate(rows) if not left_out(number)]
    own = list(everyday_data.rows("ko"))
    early = own[: everyday_data.EARLIER["ko"]]
    for folder, sentences in ((options.earlier, early), (options.out, own)):
        encoder = loading.encoder(ModelFolder(folder), "ko")
        if not isinstance(encoder, MorphemeEncoder):
            raise SystemExit(f"{folder} has no Korean encoder: run training.korean_encoder first")
        texts = [*learned, *(row for row in sentences if row["domain"] in DOMAINS)]
        model = begun(encoder, categories)
        fit(model, examples(texts, Numbers(encoder), categories))
        path = loading.encoder_file(folder, "ko")
        added_to(path, model, categories)
        record(folder, [path.name])


if __name__ == "__main__":
    main()
