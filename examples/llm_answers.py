"""Answers of an LLM
=================

A support desk asks an LLM whether a message is urgent, with four wordings of the question. Which
answers can be trusted, and about which messages do the wordings disagree? The answers are saved as
the output of a batch, with the log-probabilities of the most likely tokens.

**The answers are simulated here**, so that no network and no key are needed. The file has the form
that the servers of OpenAI and vLLM write, so only the first block would be another.
"""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import scorewise as sw

N_MESSAGES, N_PROMPTS = 600, 4


def chat_completion(p):
    """Return a response that begins with "urgent" with probability p, as the server sends it."""
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


rng = np.random.default_rng(0)
logits = rng.normal(scale=3, size=N_MESSAGES)
is_urgent = rng.random(N_MESSAGES) < 1 / (1 + np.exp(-logits))
answers = logits[:, None] + rng.normal(scale=1, size=(N_MESSAGES, N_PROMPTS))
lines = [
    {
        "id": f"batch_req_{i}_{j}",
        "custom_id": f"message-{i}/prompt-{j}",
        "response": {
            "status_code": 200,
            "body": chat_completion(1 / (1 + math.exp(-answers[i, j]))),
        },
        "error": None,
    }
    for i in range(N_MESSAGES)
    for j in range(N_PROMPTS)
]
rng.shuffle(lines)  # a batch comes back in any order
path = Path(tempfile.mkdtemp()) / "answers.jsonl"
path.write_text("".join(json.dumps(line) + "\n" for line in lines))

# %%
# ``sw.read_logprobs`` makes predictions of the lines. The wordings are the members, and each label
# has the tokens that stand for it; the probability of all other tokens is the class "other".

predictions = sw.read_logprobs(
    path, {"urgent": ["urgent", "Urgent"], "later": ["later", "Later"]}, id_separator="/"
)
truth = {f"message-{i}": "urgent" if is_urgent[i] else "later" for i in range(N_MESSAGES)}
y = [truth[message] for message in predictions.ids]
print(predictions)

# %%
# When can the answers be believed? ``sw.evaluate`` answers in plain sentences, for every reader.

print(sw.evaluate(predictions, y, n_resamples=200, random_state=0))

# %%
# Four wordings against one: the error of the answers that are accepted.

curves = {}
for name, samples in {
    "mean of four wordings": predictions.samples,
    "the first wording": sw.Samples(predictions.probs[:, :1], class_names=predictions.class_names),
}.items():
    losses = sw.task_losses(samples, y, "zero-one")
    curves[name] = sw.rejection_curve(losses, sw.decompose(samples, "zero-one").total)
display = sw.plots.RejectionCurveDisplay(curves, sw.rules.zero_one.unit)
display.plot(show_oracle=False, show_random=False)
errors = [curve.loss[-1] for curve in curves.values()]
display.ax_.set_title("Error of all answers: {:.1%}, with one wording {:.1%}".format(*errors))
sw.plots.style.percent_axis(display.ax_.yaxis)

# %%
# A policy accepts answers of which at most 10 % are wrong, with 95 % confidence. It is certified on
# one half of the messages and applied to the other.

half = N_MESSAGES // 2
policy = sw.certify(predictions.samples[:half], y[:half], max_loss=0.1)
print(policy)
print(policy.apply(predictions.samples[half:]))

# %%
# The messages about which the wordings disagree most should be read by a person. They also show
# which wording is ambiguous.

epistemic = sw.decompose(predictions.samples, "zero-one").epistemic
figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for place, row in enumerate(sw.acquire(epistemic, 6, random_state=0)):
    p = predictions.probs[row, :, 0]
    print(f"{predictions.ids[row]}: probability of urgent " + ", ".join(f"{q:.2f}" for q in p))
    ax.plot([p.min(), p.max()], [place, place], color=sw.plots.style.GREY, zorder=0)
    for j, q in enumerate(p):
        color, label = sw.plots.style.COLORS[j], f"wording {j + 1}" if place == 0 else None
        ax.plot(q, place, "osD^"[j], color=color, label=label)
    ax.annotate(predictions.ids[row] + "  ", (-0.02, place), ha="right", va="center")
ax.set_yticks([])
ax.axvline(0.5, color="black", linewidth=0.8, linestyle=":")
ax.set(xlim=(-0.02, 1), xlabel="probability of urgent")
ax.set_title("The messages about which the wordings disagree most")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
sw.plots.style.percent_axis(ax.xaxis)
sw.plots.style.despine(ax)

# sphinx_gallery_thumbnail_number = 2
