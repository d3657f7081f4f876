"""Answers of an LLM: which to trust, and what its prompts disagree about.

    python examples/llm_answers.py

A support desk asks an LLM whether a message is urgent, with four wordings of the question. The
responses are saved as the output of a batch, with the log-probabilities of the most likely tokens.
Here they are simulated, so that no network is needed; the file is like a real one.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import scorewise as sw

N_MESSAGES, N_PROMPTS = 600, 4
LABELS = {"urgent": ["urgent", "Urgent"], "later": ["later", "Later"]}  # and their tokens


def main() -> None:
    """Read the answers, evaluate them, and certify a threshold."""
    truth = write_batch_output(path := Path(tempfile.mkdtemp()) / "answers.jsonl")
    predictions = sw.read_logprobs(path, LABELS, id_separator="/")
    y = [truth[message] for message in predictions.ids]
    print(predictions, end="\n\n")

    print(sw.evaluate(predictions, y, n_resamples=200, random_state=0), end="\n\n")

    first, second = slice(None, N_MESSAGES // 2), slice(N_MESSAGES // 2, None)
    policy = sw.certify(predictions.samples[first], y[first], max_loss=0.1)
    print(policy)
    print(policy.apply(predictions.samples[second]), end="\n\n")

    print("The messages about which the prompts disagree most, to be read by a person:")
    epistemic = sw.decompose(predictions.samples, "zero-one").epistemic
    for row in sw.acquire(epistemic, 3, random_state=0):
        urgent = ", ".join(f"{p:.2f}" for p in predictions.probs[row, :, 0])
        print(f"  {predictions.ids[row]}: probability of urgent {urgent}")


def write_batch_output(path: Path) -> dict[str, str]:
    """Write a line for each message and prompt, in any order, and return the true labels."""
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=3, size=N_MESSAGES)
    is_urgent = rng.random(N_MESSAGES) < 1 / (1 + np.exp(-logits))
    answers = logits[:, None] + rng.normal(scale=1, size=(N_MESSAGES, N_PROMPTS))
    lines = [
        {
            "id": f"batch_req_{i}_{j}",
            "custom_id": f"message-{i}/prompt-{j}",
            "response": {"status_code": 200, "body": chat_completion(answers[i, j])},
            "error": None,
        }
        for i in range(N_MESSAGES)
        for j in range(N_PROMPTS)
    ]
    rng.shuffle(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {f"message-{i}": "urgent" if is_urgent[i] else "later" for i in range(N_MESSAGES)}


def chat_completion(logit: float) -> dict[str, Any]:
    """A response as the server of OpenAI or vLLM sends it, with the most likely tokens."""
    p = 1 / (1 + math.exp(-logit))
    tokens = {
        "urgent": 0.7 * p,
        "Urgent": 0.28 * p,
        "later": 0.7 * (1 - p),
        "Later": 0.28 * (1 - p),
    }
    top = [
        {"token": token, "logprob": math.log(q), "bytes": list(token.encode())}
        for token, q in sorted(tokens.items(), key=lambda item: -item[1])
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": top[0]["token"]},
        "logprobs": {"content": [{**top[0], "top_logprobs": top}]},
        "finish_reason": "stop",
    }
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]}


if __name__ == "__main__":
    main()
