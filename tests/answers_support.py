"""Responses of text classifiers with given probabilities, in the structure of each interface."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import scorewise as sw

Probs = Mapping[str, float]  # by token, or by label


def top_tokens(probs: Probs) -> list[dict[str, Any]]:
    return [
        {"token": token, "logprob": math.log(p), "bytes": list(token.encode())}
        for token, p in probs.items()
    ]


def position(probs: Probs) -> dict[str, Any]:
    """A generated token of a chat completion; the first is the one that was sampled."""
    top = top_tokens(probs)
    return {**top[0], "top_logprobs": top}


def chat(*choices: Probs) -> dict[str, Any]:
    return {
        "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
        "object": "chat.completion",
        "created": 1741570283,
        "model": "gpt-4o-2024-08-06",
        "choices": [
            {
                "index": i,
                "message": {"role": "assistant", "content": next(iter(probs)), "refusal": None},
                "logprobs": {"content": [position(probs)], "refusal": None},
                "finish_reason": "stop",
            }
            for i, probs in enumerate(choices)
        ],
        "usage": {"prompt_tokens": 19, "completion_tokens": 1, "total_tokens": 20},
        "service_tier": "default",
        "system_fingerprint": "fp_fc9f1d7035",
    }


def batch_line(response: dict[str, Any], custom_id: str) -> dict[str, Any]:
    return {
        "id": "batch_req_wnaDys",
        "custom_id": custom_id,
        "response": {"status_code": 200, "request_id": "req_c187b3", "body": response},
        "error": None,
    }


def completion(*choices: Probs) -> dict[str, Any]:
    return {
        "id": "cmpl-uqkvlQyYK7bGYrRHQ0eXlWi7",
        "object": "text_completion",
        "created": 1589478378,
        "model": "gpt-3.5-turbo-instruct",
        "choices": [
            {
                "text": next(iter(probs)),
                "index": i,
                "logprobs": {
                    "text_offset": [16],
                    "token_logprobs": [math.log(next(iter(probs.values())))],
                    "tokens": [next(iter(probs))],
                    "top_logprobs": [{token: math.log(p) for token, p in probs.items()}],
                },
                "finish_reason": "length",
            }
            for i, probs in enumerate(choices)
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
    }


def response(*messages: Probs) -> dict[str, Any]:
    """What OpenAI's Responses API returns."""
    texts = [
        {
            "id": "msg_67ccd3acc8d48190a77525dc6de64b4104becb25c45c1d41",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": next(iter(probs)),
                    "annotations": [],
                    "logprobs": [position(probs)],
                }
            ],
        }
        for probs in messages
    ]
    return {
        "id": "resp_67ccd3a9da748190baa7f1570fe91ac604becb25c45c1d41",
        "object": "response",
        "created_at": 1741476777,
        "status": "completed",
        "error": None,
        "model": "gpt-4o-2024-08-06",
        "output": [{"id": "rs_1", "type": "reasoning", "summary": []}, *texts],
        "metadata": {},
    }


def request_output(*outputs: Probs) -> dict[str, Any]:
    """What vLLM's ``LLM.generate`` returns, as JSON: the keys are the ids of tokens."""
    return {
        "request_id": "0",
        "prompt": "Is it good?",
        "prompt_token_ids": [3957, 433, 1695, 30],
        "prompt_logprobs": None,
        "outputs": [
            {
                "index": i,
                "text": next(iter(probs)),
                "token_ids": [9642],
                "cumulative_logprob": -0.1,
                "logprobs": [
                    {
                        str(9642 + rank): {
                            "logprob": math.log(p),
                            "rank": rank + 1,
                            "decoded_token": token,
                        }
                        for rank, (token, p) in enumerate(probs.items())
                    }
                ],
                "finish_reason": "length",
            }
            for i, probs in enumerate(outputs)
        ],
        "finished": True,
    }


def scores(probs: Probs) -> list[dict[str, Any]]:
    """What a pipeline of Hugging Face returns for a text with ``top_k=None``: the best first."""
    ranked = sorted(probs, key=lambda label: -probs[label])
    return [{"label": label, "score": probs[label]} for label in ranked]


TOKEN_STYLES: dict[str, Callable[..., dict[str, Any]]] = {
    "chat completion": chat,
    "completion": completion,
    "response": response,
    "RequestOutput of vLLM": request_output,
}


def write_lines(path: Path, lines: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_answers(
    path: Path, predictions: sw.io.Predictions, names: Sequence[str], token: str = "{}"
) -> None:
    """Write predictions as responses of a chat, one prompt after the other.

    Two percent of the probability are of no label. ``token`` is the text of a label's token.
    """
    lines = [
        {
            "id": i,
            "label": names[label],
            "response": chat({token.format(c): p for c, p in zip(names, probs, strict=True)}),
        }
        for member in predictions.probs.swapaxes(0, 1)
        for i, label, probs in zip(predictions.ids, predictions.labels, 0.98 * member, strict=True)
    ]
    write_lines(path, lines)
