"""Adapter for lists of Hugging Face's pipelines for text classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scorewise._text import quoted_names
from scorewise.errors import InvalidInput
from scorewise.models._adapters import Adapter, NoMembers, instance_of
from scorewise.models._samplers import Sampler, SamplingOptions, member_sampler

_is_pipeline = instance_of("transformers.pipelines.text_classification.TextClassificationPipeline")


def _are_pipelines(model: Any) -> bool:
    return isinstance(model, list | tuple) and len(model) > 0 and all(map(_is_pipeline, model))


def _labels(pipeline: Any) -> list[str]:
    """Return the labels of a pipeline in the order of its logits."""
    names = pipeline.model.config.id2label
    return [names[k] for k in sorted(names)]


def _sample_pipelines(pipelines: Sequence[Any], options: SamplingOptions) -> Sampler:
    labels = _labels(pipelines[0])
    for i, pipeline in enumerate(pipelines):
        if sorted(_labels(pipeline)) != sorted(labels):
            raise InvalidInput(
                f"member {i} has the labels {quoted_names(_labels(pipeline))}, and member 0 has "
                f"{quoted_names(labels)}; all must have the same"
            )
        if getattr(pipeline.model, "training", False):
            raise InvalidInput(
                f"member {i} is in training mode, in which its outputs are random; call "
                "pipeline.model.eval()"
            )
    return member_sampler([_predictor(pipeline, labels) for pipeline in pipelines], labels, options)


def _predictor(pipeline: Any, labels: Sequence[str]) -> Callable[[Any], np.ndarray]:
    def predict(texts: Any) -> np.ndarray:
        outputs = [
            {score["label"]: score["score"] for score in scores}
            for scores in pipeline(list(texts), top_k=None)
        ]
        return np.array([[scores[label] for label in labels] for scores in outputs], np.float32)

    return predict


ADAPTERS = (
    Adapter(
        matches=_are_pipelines,
        classes=lambda pipelines: _labels(pipelines[0]),
        sampler=_sample_pipelines,
        describe=lambda pipelines: (
            "the pipelines in the list; what they approximate depends on how they were trained"
        ),
    ),
)

NO_MEMBERS = (
    NoMembers(
        _is_pipeline,
        "pass a list of pipelines, or, for draws with dropout, pipeline.model with the output of "
        "pipeline.tokenizer",
    ),
)
