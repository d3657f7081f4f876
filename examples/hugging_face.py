"""Hugging Face pipelines
======================

Which part of SciPy is a sentence about? Three pipelines for text classification answer: small
transformers, trained here on sentences from SciPy's own documentation, as no trained weights can be
downloaded while this page is built. With yours, the list of pipelines is the only line that
changes: ``[pipeline("text-classification", name) for name in names]``.
"""

import importlib
import inspect

import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.model_selection import train_test_split
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    pipeline,
)

import scorewise as sw


def sentences(package):
    """Return the first sentences of the documentation of a package's functions and classes."""
    module = importlib.import_module(package)
    docs = [inspect.getdoc(getattr(module, name)) or "" for name in module.__all__]
    paragraphs = [" ".join(doc.strip().split("\n\n")[0].split()) for doc in docs]
    return sorted(
        {text for text in paragraphs if 4 < len(text.split()) < 30 and "out=" not in text}
    )


topics = ["linalg", "ndimage", "optimize", "signal", "special", "stats"]
texts, y = zip(*((text, k) for k in topics for text in sentences(f"scipy.{k}")), strict=True)
X, X_new, y, y_new = train_test_split(
    list(texts), list(y), test_size=0.4, stratify=y, random_state=0
)
for text, topic in zip(X[:3], y, strict=False):
    print(f"{topic}: {text}")

# %%
# The tokenizer and the networks are those of the library, only much smaller.

words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
words.normalizer = normalizers.BertNormalizer()
words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
special = ["[PAD]", "[UNK]", "[CLS]"]
words.train_from_iterator(
    X, trainers.WordLevelTrainer(min_frequency=2, special_tokens=special, show_progress=False)
)
words.post_processor = processors.TemplateProcessing(
    single="[CLS] $A", special_tokens=[("[CLS]", special.index("[CLS]"))]
)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]"
)
torch.set_num_threads(1)  # more threads wait for each other in networks as small as these


def trained_pipeline(seed):
    """Return a pipeline whose network was trained from other initial weights."""
    torch.manual_seed(seed)
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=64,
        hidden_dim=128,
        n_layers=1,
        n_heads=4,
        max_position_embeddings=256,
        dropout=0.2,
        id2label=dict(enumerate(topics)),
        label2id={topic: k for k, topic in enumerate(topics)},
    )
    network = DistilBertForSequenceClassification(config)
    labels = torch.tensor([topics.index(topic) for topic in y])
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3)
    network.train()
    for _ in range(8):
        for batch in torch.randperm(len(X)).split(32):
            tokens = tokenizer([X[i] for i in batch], padding=True, return_tensors="pt")
            optimizer.zero_grad()
            network(**tokens, labels=labels[batch]).loss.backward()
            optimizer.step()
    return pipeline("text-classification", model=network.eval(), tokenizer=tokenizer, device="cpu")


pipelines = [trained_pipeline(seed) for seed in range(3)]

# %%
# A list of pipelines is an ensemble. Labels are aligned by name.

samples = sw.predict_samples(pipelines, X_new)
print(samples, *samples.classes_)

# %%
# When should a person answer? Where the probability of an error is large, the total under the
# zero-one loss.

losses = sw.task_losses(samples, y_new, "zero-one")
uncertainty = sw.decompose(samples, "zero-one")
print(sw.loss_calibration(losses, uncertainty.total))
curve = sw.rejection_curve(losses, uncertainty.total)
display = sw.plots.RejectionCurveDisplay({"total zero-one": curve}, sw.rules.zero_one.unit).plot()
half = curve.loss_at(0.5)
display.ax_.set_title(f"Of the most certain half {half:.0%} are wrong, of all {curve.loss[-1]:.0%}")
sw.plots.style.percent_axis(display.ax_.yaxis)

# %%
# The texts about which the pipelines disagree most are worth a label, or a look:

figure, axes = plt.subplots(3, 1, figsize=(6.4, 5.4), layout="constrained", sharex=True)
for ax, row in zip(axes, sw.acquire(uncertainty.epistemic, 3, random_state=0), strict=True):
    print(f"{y_new[row]}: {X_new[row]}")
    for member, p in enumerate(samples.probs[row]):
        places = np.arange(len(topics)) + 0.25 * (member - 1)
        ax.bar(places, p, 0.25, color=sw.plots.style.COLORS[member], label=f"pipeline {member + 1}")
    ax.set_title(f"“{X_new[row][:70]}”, from {y_new[row]}", fontsize="small")
    ax.set(ylim=(0, 1), ylabel="probability")
    sw.plots.style.despine(ax)
axes[-1].set_xticks(range(len(topics)), samples.classes_)
axes[0].legend(fontsize="small", ncols=2)
figure.suptitle("Where three pipelines disagree most")

# %%
# Outputs that were saved are read without the pipelines: for each text, the list of labels and
# scores that ``top_k=None`` returns. ``sw.read_logprobs`` takes such lists, and files with one of
# them per line.

outputs = pipelines[0](X_new[:100], top_k=None)
print(outputs[0][:2])
print(sw.read_logprobs(outputs))

# sphinx_gallery_thumbnail_number = 2
