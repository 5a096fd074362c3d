"""The auxiliary classifier, against a tiny real checkpoint that the test makes."""

from __future__ import annotations

import asyncio
import json

import pytest

from absa import InputError, analyze, load_settings
from absa.aux_hf import disagrees, polarity_of
from absa.metrics.process import ProcessTally
from absa.runs import RunPlan, run

transformers = pytest.importorskip(
    "transformers", reason="the optional extra is not installed: pip install -e '.[hf]'"
)


def tiny_bert(folder, words, labels):
    """A classifier with random weights: real files, real loading, no network.

    The weights are large enough for the label to depend on the words.
    """
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    ids = {word: number for number, word in enumerate(vocab)}
    BertTokenizerFast(vocab=ids).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=1.0,
        id2label=dict(enumerate(labels)),
        label2id={name: number for number, name in enumerate(labels)},
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    words = ["가격", "the", "food", "great", "##은"]
    folder = tmp_path_factory.mktemp("작은 모델")
    return tiny_bert(folder, words, ["negative", "neutral", "positive"])


@pytest.fixture(scope="module")
def entailment(tmp_path_factory):
    words = ["the", "food", "was", "great", "this", "is", "positive", "negative", "neutral"]
    folder = tmp_path_factory.mktemp("entailment")
    labels = ["contradiction", "neutral", "entailment"]
    return str(tiny_bert(folder, [*words, "긍정", "부정"], labels))


def test_the_classifier_speaks_beside_the_result_and_changes_nothing(checkpoint):
    switched_on = {"aux_hf.enabled": True, "aux_hf.checkpoint": str(checkpoint)}
    with_it = analyze("The food was great.", load_settings(None, switched_on))
    without = analyze("The food was great.")
    signal = with_it.aux_signals["hf"]
    assert signal["polarity"] in ("positive", "negative", "neutral")
    assert signal["disagrees_with_final"] == (signal["polarity"] != with_it.final_result.label)
    assert with_it.final_result == without.final_result
    assert without.aux_signals == {}


def test_a_batch_counts_where_it_disagrees(checkpoint, tmp_path):
    data = tmp_path / "data.jsonl"
    rows = [{"uid": str(n), "text": f"The food was great {n}."} for n in range(4)]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = load_settings(None, {"aux_hf.enabled": True, "aux_hf.checkpoint": str(checkpoint)})
    asyncio.run(run(RunPlan(data=data, out=tmp_path / "run", settings=settings)))
    tally = ProcessTally()
    for line in (tmp_path / "run" / "scorecards.jsonl").read_text(encoding="utf-8").splitlines():
        tally.add(json.loads(line))
    rate = tally.summary()["hf_polarity_disagreement_rate"]
    assert rate["denominator"] == 4
    assert rate["rate"] in (0.0, 1.0)


def test_a_checkpoint_that_is_not_there_is_named(tmp_path):
    missing = {"aux_hf.enabled": True, "aux_hf.checkpoint": str(tmp_path / "nowhere")}
    with pytest.raises(InputError, match="nowhere"):
        analyze("The food was great.", load_settings(None, missing))


@pytest.mark.parametrize(
    ("label", "labels", "means"),
    [
        ("POSITIVE", {}, "positive"),
        ("1 star", {}, "negative"),
        ("5 stars", {}, "positive"),
        ("3 stars", {}, "neutral"),
        ("LABEL_0", {"LABEL_0": "negative"}, "negative"),
        ("LABEL_0", {}, None),
    ],
)
def test_what_a_label_means(label, labels, means):
    assert polarity_of(label, labels) == means


def test_an_unknown_label_neither_agrees_nor_disagrees():
    assert disagrees(None, "positive") is None
    assert disagrees("negative", "positive") is True


def zero_shot(entailment, text="The food was great.", **more):
    settings = {"aux_hf.enabled": True, "aux_hf.checkpoint": entailment}
    chosen = load_settings(None, {**settings, **{f"aux_hf.{k}": v for k, v in more.items()}})
    return analyze(text, chosen).aux_signals["hf"]


def test_a_model_trained_on_entailment_is_asked_zero_shot(entailment):
    orders = (["positive", "negative"], ["negative", "positive"])
    one, other = (zero_shot(entailment, candidate_labels=order) for order in orders)
    assert one["task"] == "zero-shot-classification"
    assert one["label"] == one["polarity"] == other["label"]
    assert 0.5 < one["score"] == pytest.approx(other["score"])
    assert zero_shot(entailment)["polarity"] in ("positive", "negative", "neutral")


def test_candidate_labels_of_another_language_mean_what_the_settings_say(entailment):
    meaning = {"긍정": "positive", "부정": "negative"}
    signal = zero_shot(
        entailment,
        candidate_labels=list(meaning),
        labels=meaning,
        hypothesis_template="this is {}",
    )
    assert signal["polarity"] == meaning[signal["label"]]


def test_a_text_longer_than_the_model_reads_is_judged_by_its_beginning(entailment, checkpoint):
    text = "The food was great. " * 200
    assert zero_shot(entailment, text)["score"] > 0
    assert zero_shot(str(checkpoint), text)["task"] == "text-classification"
