"""Fixtures for the tests of torch models."""

from __future__ import annotations

import pytest
import torch
from torch import nn


@pytest.fixture(scope="module")
def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=12,
        num_labels=3,
        classifier_dropout=0.4,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForSequenceClassification(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.5)
    return model
