"""The same predictions in another float type are decided alike, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import scorewise as sw
from report_support import members
from scorewise.io import Predictions

parametrize = pytest.mark.parametrize


def rounded_alike(array: np.ndarray) -> np.ndarray:
    """Rows that float16 holds alike whether or not they were in float32 before."""
    twice = array.astype(np.float32).astype(np.float16)
    return (array.astype(np.float16) == twice).all(axis=(1, 2))


PROBS, Y = members(700, 3)
PROBS[:200] = [1 - 1e-9, 1e-9, 0]  # which float32 rounds to certainty
Y[:200] = 0
LOGITS = np.log(np.maximum(PROBS, 1e-12)) + np.random.default_rng(0).normal(size=(700, 8, 1))
ROWS = np.flatnonzero(rounded_alike(PROBS) & rounded_alike(3 * PROBS) & rounded_alike(LOGITS))[:600]
PROBS, LOGITS, Y = PROBS[ROWS], LOGITS[ROWS], Y[ROWS]
WEIGHTS = np.random.default_rng(2).uniform(size=8)
DTYPES = ["float64", "float32", "float16", "bfloat16"]
FINER = {
    "float64": [],
    "float32": ["float64"],
    "float16": ["float32", "float64"],
    "bfloat16": ["float32", "float64"],
}
OPTIONS: dict[str, Any] = {"max_loss": 0.2, "confidence": 0.9}


def rounded(array: np.ndarray, dtype: str) -> Any:
    """The array in a dtype, by way of all finer ones; bfloat16 in torch."""
    if dtype == "float64":
        return array
    single = array.astype(np.float32)
    if dtype == "bfloat16":
        return torch.tensor(single).to(torch.bfloat16)
    return single.astype(dtype)


def same_decisions(result: sw.abstain.PolicyResult, other: sw.abstain.PolicyResult) -> None:
    np.testing.assert_array_equal(result.uncertainty, other.uncertainty)
    np.testing.assert_array_equal(result.accepted, other.accepted)
    np.testing.assert_array_equal(result.prediction, other.prediction)
    assert result.drift == other.drift


# -- finer types are rounded -----------------------------------------------------------------------


@parametrize("component", ["total", "epistemic"])
@parametrize("dtype", DTYPES)
def test_finer_predictions_are_decided_as_those_of_the_calibration(tmp_path, dtype, component):
    rows = rounded(PROBS, dtype)
    policy = sw.certify(rows, Y, component=component, task_loss="brier", **OPTIONS)
    assert policy.stored_as.dtype == dtype
    policy.save(tmp_path / "policy.json")
    policy = sw.load_policy(tmp_path / "policy.json")
    expected = policy.apply(rows)
    assert expected.accepted.mean() == policy.certificate.coverage > 0
    assert expected.drift.p_value == 1
    for finer in FINER[dtype]:
        new = rounded(PROBS, finer)
        sw.write_predictions(tmp_path / "new.npy", new)
        for same_rows in (
            new,
            torch.tensor(new),
            sw.Samples(new),
            sw.Samples(torch.tensor(new)),
            Predictions(new),
            sw.read_predictions(tmp_path / "new.npy"),
        ):
            same_decisions(policy.apply(same_rows), expected)


@parametrize("suffix", ["npy", "npz", "parquet", "csv", "arrow", "safetensors"])
@parametrize("certified", ["float16", "float32"])
def test_files_of_finer_types_are_decided_alike(tmp_path, suffix, certified):
    policy = sw.certify(rounded(PROBS, certified), Y, **OPTIONS)
    expected = policy.apply(rounded(PROBS, certified))
    for dtype in [certified, *FINER[certified]]:
        path = tmp_path / f"{dtype}.{suffix}"
        sw.write_predictions(path, rounded(PROBS, dtype))
        same_decisions(policy.apply(sw.read_predictions(path)), expected)


def test_text_without_a_dtype_is_float64(tmp_path):
    single = rounded(PROBS, "float32")
    columns = [f"probs_{m}_{k}" for m in range(8) for k in range(3)]
    path = tmp_path / "new.csv"
    lines = [",".join(map(str, row)) for row in single.reshape(600, -1)]  # seven digits
    path.write_text("\n".join([",".join(columns), *lines]))
    policy = sw.certify(single, Y, **OPTIONS)
    same_decisions(policy.apply(sw.read_predictions(path)), policy.apply(single))


def test_jax_arrays_are_rounded_too():
    jnp = pytest.importorskip("jax.numpy")
    half = jnp.asarray(rounded(PROBS, "float32")).astype(jnp.bfloat16)
    policy = sw.certify(half, Y, **OPTIONS)
    assert policy.stored_as.dtype == "bfloat16"
    expected = policy.apply(half)
    for same_rows in (rounded(PROBS, "bfloat16"), jnp.asarray(rounded(PROBS, "float32")), PROBS):
        same_decisions(policy.apply(same_rows), expected)


@parametrize("dtype", ["float32", "float16"])
def test_logits_are_rounded_before_the_softmax(tmp_path, dtype):
    rows = rounded(LOGITS, dtype)
    policy = sw.certify(Predictions(logits=rows, labels=Y), **OPTIONS)
    assert policy.stored_as.from_logits
    expected = policy.apply(Predictions(logits=rows))
    same_decisions(policy.apply(sw.Samples(rows, from_logits=True)), expected)
    for finer in FINER[dtype]:
        new = Predictions(logits=rounded(LOGITS, finer))
        same_decisions(policy.apply(new), expected)
        sw.write_predictions(tmp_path / "new.npz", logits=rounded(LOGITS, finer))
        same_decisions(policy.apply(sw.read_predictions(tmp_path / "new.npz")), expected)


@parametrize("dtype", ["float32", "float16"])
def test_rows_are_rounded_before_they_are_rescaled(dtype):
    rows = rounded(3 * PROBS, dtype)
    policy = sw.certify(rows, Y, normalize=True, **OPTIONS)
    expected = policy.apply(rows, normalize=True)
    for finer in FINER[dtype]:
        same_decisions(policy.apply(rounded(3 * PROBS, finer), normalize=True), expected)


@parametrize("dtype", ["float32", "float16"])
@parametrize("weights", [WEIGHTS, np.tile(WEIGHTS, (600, 1))])
def test_weights_are_rounded_too(tmp_path, dtype, weights):
    rows = Predictions(rounded(PROBS, dtype), weights=rounded(weights, dtype))
    policy = sw.certify(rows, Y, **OPTIONS)
    for finer in FINER[dtype]:
        for weights_dtype in (dtype, finer):
            new = Predictions(rounded(PROBS, finer), weights=rounded(weights, weights_dtype))
            same_decisions(policy.apply(new), policy.apply(rows))
            sw.write_predictions(tmp_path / "new.npz", new)
            from_file = policy.apply(sw.read_predictions(tmp_path / "new.npz"))
            same_decisions(from_file, policy.apply(rows))


@parametrize("dtype", ["float64", "float32", "float16"])
@parametrize("weights_dtype", ["float64", "float32", "float16"])
@parametrize("per_row", [False, True])
def test_weights_of_any_dtype_decide_the_same_rows_alike(tmp_path, dtype, weights_dtype, per_row):
    """Although they are scaled, and tied rows are split by a weight that differs in a digit."""
    rows = np.random.default_rng(3).integers(4, size=200)  # many of them tied
    probs, y = PROBS[300:304, :3].astype(dtype)[rows], Y[300:304][rows]
    for seed in range(40):
        weights = np.random.default_rng(seed).uniform(size=(200, 3) if per_row else 3)
        weights = weights[rows] if per_row else weights
        weights = weights.astype(weights_dtype)
        predictions = Predictions(probs, labels=y, weights=weights)
        samples = sw.Samples(probs, weights)
        policy = sw.certify(predictions, task_loss="brier", max_loss=1.5)
        assert policy.stored_as.weights_dtype == weights_dtype
        expected = policy.apply(predictions)
        np.testing.assert_array_equal(np.sort(expected.uncertainty), policy.calibration_uncertainty)
        assert expected.drift.p_value == 1
        same_decisions(policy.apply(samples), expected)
        of_samples = sw.certify(samples, y, task_loss="brier", max_loss=1.5)
        same_decisions(of_samples.apply(predictions), expected)
    sw.write_predictions(tmp_path / "new.parquet", predictions)
    same_decisions(policy.apply(sw.read_predictions(tmp_path / "new.parquet")), expected)


def test_sums_are_checked_with_the_tolerance_of_the_coarser_type():
    rows = rounded(PROBS, "bfloat16")
    off_by = np.abs(rows.double().sum(dim=-1).numpy() - 1).max()
    assert off_by > 1e-3
    policy = sw.certify(rows, Y, **OPTIONS)
    single = rows.float().numpy()  # as it must be stored in a file
    same_decisions(policy.apply(single), policy.apply(rows))
    with pytest.raises(sw.InvalidInput, match="sums to"):
        sw.Samples(single)
    with pytest.raises(sw.InvalidInput, match=r"probs\[0, 0\] sums to 2"):
        policy.apply(2 * single)


def test_halfway_values_are_rounded_as_torch_rounds_them():
    p = 0.5 + np.arange(128) / 256
    p = np.concatenate([p + 1 / 512, np.nextafter(p + 1 / 512, 0), np.nextafter(p + 1 / 512, 1)])
    single = sw.binary(p.astype(np.float32))[:, None]
    half = torch.tensor(single).to(torch.bfloat16)
    policy = sw.certify(half, np.ones(len(p), dtype=int), task_loss="brier", **OPTIONS)
    same_decisions(policy.apply(single), policy.apply(half))


def test_a_classifier_has_the_type_of_its_predictions():
    torch.manual_seed(0)
    networks = [torch.nn.Linear(3, 3) for _ in range(4)]
    X = torch.randn(300, 3)
    y = np.random.default_rng(0).integers(3, size=300)
    model = sw.SelectiveClassifier(networks, "brier", max_loss=0.9, random_state=0).fit(X, y)
    assert model.policy_.stored_as.dtype == "float32"
    samples = sw.predict_samples(networks, X)
    expected = model.policy_.apply(samples)
    np.testing.assert_array_equal(expected.accepted, model.accepts(X))
    same_decisions(model.policy_.apply(samples.probs.astype(np.float64)), expected)


# -- options of arrays -----------------------------------------------------------------------------

INPUTS: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "logits": (LOGITS, {"from_logits": True}),
    "rescaled": (3 * PROBS, {"normalize": True}),
    "weights": (PROBS, {"weights": WEIGHTS}),
    "weights of rows": (PROBS, {"weights": np.tile(WEIGHTS, (600, 1))}),
    "list of weights": (PROBS, {"weights": WEIGHTS.tolist()}),
    "member axis": (PROBS.transpose(1, 0, 2), {"member_axis": 0}),
    "class axis": (PROBS.transpose(0, 2, 1), {"class_axis": 1, "member_axis": 2}),
    "all": (LOGITS.transpose(1, 0, 2), {"member_axis": 0, "from_logits": True, "weights": WEIGHTS}),
}


@parametrize("dtype", DTYPES)
@parametrize("name", INPUTS)
def test_what_certify_takes_apply_takes(name, dtype):
    values, options = INPUTS[name]
    rows = rounded(values, dtype)
    policy = sw.certify(rows, Y, task_loss="brier", **options, max_loss=0.5)
    expected = policy.apply(rows, **options)
    assert expected.drift.p_value == 1
    np.testing.assert_array_equal(np.sort(expected.uncertainty), policy.calibration_uncertainty)
    for finer in FINER[dtype]:
        new = rounded(values, finer)
        same_decisions(policy.apply(new, **options), expected)
        same_decisions(policy.apply(torch.tensor(new), **options), expected)


@parametrize("dtype", ["float32", "bfloat16"])
@parametrize("name", ["logits", "rescaled", "weights", "all"])
def test_the_advice_for_samples_of_another_library_can_be_followed(name, dtype):
    values, options = INPUTS[name]
    rows = torch.tensor(rounded(values, "float32")).to(getattr(torch, dtype))
    policy = sw.certify(rows, Y, **options, **OPTIONS)
    with pytest.raises(sw.InvalidInput) as caught:
        policy.apply(sw.Samples(rows, **options))
    for option in set(options) - {"member_axis"}:
        assert f"{option}=" in str(caught.value).partition("pass the array itself with ")[2]
    assert policy.apply(rows, **options).accepted.mean() == policy.certificate.coverage


def test_the_advice_for_arrays_can_be_followed():
    rows = torch.tensor(LOGITS).to(torch.bfloat16)
    policy = sw.certify(rows, Y, from_logits=True, weights=WEIGHTS, **OPTIONS)
    with pytest.raises(sw.InvalidInput, match=r"pass weights=…, the weights of the members"):
        policy.apply(rows, from_logits=True)
    with pytest.raises(sw.InvalidInput, match="pass from_logits=True if an array holds logits"):
        policy.apply(rows, weights=WEIGHTS)
    result = policy.apply(rows, from_logits=True, weights=WEIGHTS)
    assert result.accepted.mean() == policy.certificate.coverage


def test_predictions_have_their_own_options():
    policy = sw.certify(PROBS, Y, **OPTIONS)
    with pytest.raises(sw.InvalidInput, match="member_axis cannot be passed with Predictions"):
        policy.apply(Predictions(PROBS), member_axis=0)
    with pytest.raises(sw.InvalidInput, match="normalize cannot be passed with Samples"):
        policy.apply(sw.Samples(PROBS), normalize=True)


# -- libraries -------------------------------------------------------------------------------------


@parametrize("library", ["torch", "jax"])
@parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_logits_of_another_library_are_decided_alike(library, dtype):
    """Although the softmax of float32 logits differs in the last digit from library to library."""
    rows = torch.tensor(rounded(LOGITS, "float32")).to(getattr(torch, dtype))
    if library == "jax":
        jnp = pytest.importorskip("jax.numpy")
        rows = jnp.asarray(rounded(LOGITS, "float32")).astype(dtype)
    policy = sw.certify(rows, Y, from_logits=True, weights=WEIGHTS, **OPTIONS)
    assert policy.stored_as.dtype == dtype
    assert policy.certificate.coverage > 0
    result = policy.apply(Predictions(logits=rounded(LOGITS, "float32"), weights=WEIGHTS))
    assert result.accepted.mean() == policy.certificate.coverage
    assert result.drift.p_value == 1
    np.testing.assert_array_equal(np.sort(result.uncertainty), policy.calibration_uncertainty)


@parametrize("dtype", ["float32", "float64"])
@parametrize(
    ("array", "options", "conversion"),
    [
        (LOGITS, {"from_logits": True}, "were made from logits"),
        (3 * PROBS, {"normalize": True}, "were rescaled"),
        (PROBS, {"weights": WEIGHTS}, "have weights that were rescaled"),
    ],
)
def test_samples_that_another_library_converted_need_float64(dtype, array, options, conversion):
    rows = torch.tensor(rounded(array, dtype))
    converted = sw.Samples(rows, **options)
    policy = sw.certify(rows, Y, **options, **OPTIONS)
    if dtype == "float64":
        same_decisions(policy.apply(converted), policy.apply(sw.Samples(rows.numpy(), **options)))
        return
    for act in (policy.apply, lambda x: sw.certify(x, Y, **OPTIONS)):
        with pytest.raises(sw.InvalidInput, match=f"these Samples {conversion} by a library"):
            act(converted)


# -- coarser types are refused ---------------------------------------------------------------------


@parametrize("certified", DTYPES)
@parametrize("dtype", DTYPES)
def test_coarser_predictions_are_refused(tmp_path, certified, dtype):
    if dtype == certified or dtype in FINER[certified]:
        return
    policy = sw.certify(rounded(PROBS, certified), Y, **OPTIONS)
    new = rounded(PROBS, dtype)
    for same_rows in (new, sw.Samples(new), *([] if dtype == "bfloat16" else [Predictions(new)])):
        with pytest.raises(sw.InvalidInput) as caught:
            policy.apply(same_rows)
        assert f"these predictions are {dtype}, and the policy was certified on {certified}" in str(
            caught.value
        )
        assert f"certify again on {dtype} predictions" in str(caught.value)


def test_coarser_weights_are_refused():
    policy = sw.certify(Predictions(PROBS, labels=Y, weights=WEIGHTS), **OPTIONS)
    with pytest.raises(sw.InvalidInput, match="these weights are float32, and the policy"):
        policy.apply(Predictions(PROBS, weights=rounded(WEIGHTS, "float32")))


def test_logits_and_probabilities_are_not_mixed():
    of_logits = sw.certify(Predictions(logits=LOGITS, labels=Y), **OPTIONS)
    of_probs = sw.certify(PROBS, Y, **OPTIONS)
    for new in (PROBS, sw.Samples(PROBS)):
        with pytest.raises(sw.InvalidInput, match=r"are probabilities, .* certified on logits"):
            of_logits.apply(new)
    for new in (Predictions(logits=LOGITS), sw.Samples(LOGITS, from_logits=True)):
        with pytest.raises(sw.InvalidInput, match=r"are logits, .* certified on probabilities"):
            of_probs.apply(new)


@parametrize(
    ("certified", "new", "reason"),
    [
        (
            Predictions(logits=rounded(LOGITS, "float32"), labels=Y),
            sw.Samples(LOGITS, from_logits=True),
            "were made from logits",
        ),
        (
            Predictions(rounded(PROBS, "float32"), labels=Y),
            sw.Samples(3 * PROBS, normalize=True),
            "were rescaled",
        ),
        (
            Predictions(rounded(PROBS, "float32"), labels=Y, weights=WEIGHTS),
            sw.Samples(PROBS, WEIGHTS),
            "have weights that were rescaled",
        ),
    ],
)
def test_samples_that_can_no_longer_be_rounded_are_refused(certified, new, reason):
    policy = sw.certify(certified, **OPTIONS)
    with pytest.raises(sw.InvalidInput, match=f"Samples of float64 {reason}, .* to float32"):
        policy.apply(new)


# -- how predictions were stored -------------------------------------------------------------------


@parametrize("dtype", DTYPES)
@parametrize("from_logits", [False, True])
def test_samples_know_how_they_were_stored(dtype, from_logits):
    stored = sw.Samples(rounded(LOGITS if from_logits else PROBS, dtype), from_logits=from_logits)
    assert stored.stored_as.dtype == dtype
    assert stored.stored_as.from_logits is from_logits
    assert stored.stored_as.weights_dtype is None
