"""Pipelines of Hugging Face: a list of them is an ensemble, and their outputs can be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scorewise as sw

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = ["a good film", "bad", "a bad bad film", "good good", "film"]
LABELS = ["neg", "neutral", "pos"]


@pytest.fixture(scope="module")
def make_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Tiny classifiers with random weights."""
    vocabulary = tmp_path_factory.mktemp("tokenizer") / "vocab.txt"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a"]
    vocabulary.write_text("\n".join(words))
    tokenizer = transformers.BertTokenizerFast(str(vocabulary))

    def make(seed: int, labels: list[str] = LABELS) -> Any:
        config = transformers.BertConfig(
            vocab_size=len(words),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            initializer_range=1.0,
            id2label=dict(enumerate(labels)),
            label2id={label: k for k, label in enumerate(labels)},
        )
        torch.manual_seed(seed)
        model = transformers.BertForSequenceClassification(config).eval()
        return transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)

    return make


def probabilities(pipeline: Any) -> np.ndarray:
    """The softmax of the logits, one text at a time."""
    logits = []
    for text in TEXTS:
        tokens = pipeline.tokenizer(text, return_tensors="pt").to(pipeline.device)
        with torch.no_grad():
            logits.append(pipeline.model(**tokens).logits[0])
    return torch.softmax(torch.stack(logits), dim=-1).cpu().numpy()


def test_pipelines_in_a_list_are_members(make_pipeline: Callable[..., Any]):
    pipelines = [make_pipeline(seed) for seed in range(3)]
    samples = sw.predict_samples(pipelines, TEXTS, batch_size=2)
    expected = np.stack([probabilities(pipeline) for pipeline in pipelines], axis=1)
    np.testing.assert_allclose(samples.probs, expected, rtol=1e-5)
    assert samples.classes_.tolist() == LABELS
    assert (sw.decompose(samples, "log").epistemic > 0).all()


def test_labels_of_pipelines_are_aligned_by_name(make_pipeline: Callable[..., Any]):
    first, second = make_pipeline(0), make_pipeline(0, labels=LABELS[::-1])
    samples = sw.predict_samples([first, second], np.array(TEXTS))
    np.testing.assert_allclose(samples.probs[:, 1], samples.probs[:, 0, ::-1])


def test_pipelines_that_are_no_ensemble_are_refused(make_pipeline: Callable[..., Any]):
    pipeline = make_pipeline(0)
    with pytest.raises(sw.InvalidInput, match="pass a list of pipelines"):
        sw.predict_samples(pipeline, TEXTS)
    with pytest.raises(sw.InvalidInput, match="member 1 has the labels 'no', 'yes'"):
        sw.predict_samples([pipeline, make_pipeline(1, labels=["no", "yes"])], TEXTS)
    pipeline.model.train()
    with pytest.raises(sw.InvalidInput, match="member 1 is in training mode"):
        sw.predict_samples([make_pipeline(0), pipeline], TEXTS)


def test_draws_with_dropout_come_from_the_model_of_a_pipeline(make_pipeline: Callable[..., Any]):
    pipeline = make_pipeline(0)
    tokens = pipeline.tokenizer(TEXTS, return_tensors="pt", padding=True)
    samples = sw.predict_samples(pipeline.model, tokens, n_samples=5, random_state=0)
    assert samples.probs.shape == (5, 5, 3)


def test_outputs_of_pipelines_are_read(make_pipeline: Callable[..., Any], tmp_path: Path):
    pipelines = [make_pipeline(seed) for seed in range(2)]
    outputs = [pipeline(TEXTS, top_k=None) for pipeline in pipelines]
    expected = np.stack([probabilities(pipeline) for pipeline in pipelines], axis=1)
    in_memory = sw.read_logprobs(outputs[0])
    np.testing.assert_allclose(in_memory.probs, expected[:, :1], rtol=1e-5)
    lines = [{"id": i, "scores": scores} for output in outputs for i, scores in enumerate(output)]
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    read = sw.read_predictions(path)
    np.testing.assert_allclose(read.probs, expected, rtol=1e-5)
    assert read.class_names == tuple(LABELS)
