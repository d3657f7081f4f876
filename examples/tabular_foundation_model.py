"""A tabular foundation model: TabICL
==================================

TabICL predicts without being fitted: a trained network reads the training rows and the new ones
together. It does so several times, with features and classes in other orders, and these calls are
the members. Which wines should be tasted again?

**The network is a toy**, trained here in seconds on made-up tables, as the weights of TabICL cannot
be downloaded while this page is built. With yours leave out ``model_path``. TabPFN is taken in the
same way: ``TabPFNClassifier().fit(X_old, y_old)``, which needs weights, too.
"""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from tabicl import TabICLClassifier
from tabicl._model.tabicl import TabICL  # the network has no public name

import scorewise as sw

torch.manual_seed(0)
torch.set_num_threads(1)
N_TABLES, N_ROWS, N_FEATURES, N_CLASSES = 8, 48, 4, 3


def made_up_tables():
    """Return rows and labels of some tables: three clouds of points in each."""
    y = torch.randint(N_CLASSES, (N_TABLES, N_ROWS))
    centres = 1.5 * torch.randn(N_TABLES, N_CLASSES, N_FEATURES)
    X = centres[torch.arange(N_TABLES)[:, None], y] + torch.randn(N_TABLES, N_ROWS, N_FEATURES)
    return (X - X.mean(dim=1, keepdim=True)) / X.std(dim=1, keepdim=True), y


def train(network, n_steps):
    """Train a network to predict the second half of each table from the first."""
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, n_steps)
    for _ in range(n_steps):
        X, y = made_up_tables()
        y_known, y_new = y.split(N_ROWS // 2, dim=1)
        logits = network(X, y_known.float())[..., :N_CLASSES]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y_new.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network


sizes = {"embed_dim": 32, "row_num_cls": 2, "col_num_inds": 8, "col_ssmax": False}
sizes |= {"col_num_blocks": 1, "row_num_blocks": 1, "icl_num_blocks": 2, "icl_ssmax": False}
sizes |= {"col_nhead": 2, "row_nhead": 2, "icl_nhead": 2}
weights = Path(tempfile.mkdtemp()) / "toy.ckpt"
network = train(TabICL(**sizes), 400)
torch.save({"config": sizes, "state_dict": network.state_dict()}, weights)

# %%
# From here on it is TabICL as its users know it.

X, y = load_wine(return_X_y=True)
X_old, X_new, y_old, y_new = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
model = TabICLClassifier(average_logits=False, model_path=weights, device="cpu").fit(X_old, y_old)
print(sw.explain_model(model))

# %%
# The uncertainty of a wine is the probability that its label is wrong.

samples = sw.predict_samples(model, X_new)
errors = sw.task_losses(samples, y_new, "zero-one")
curve = sw.rejection_curve(errors, sw.decompose(samples, "zero-one").total)
print(f"Error of all wines: {curve.loss[-1]:.1%}")
print(f"Error of the most certain 80 %: {curve.loss_at(0.8):.1%}")
display = sw.plots.RejectionCurveDisplay({"total zero-one": curve}, sw.rules.zero_one.unit).plot()
display.ax_.set_title("The network knows which wines it confuses")
sw.plots.style.percent_axis(display.ax_.yaxis)
