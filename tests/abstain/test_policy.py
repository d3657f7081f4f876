"""Policies: the numbers of certify_threshold, saved to the last bit, and applied to new rows."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import scorewise as sw
from io_support import set_chunk_bytes
from report_support import members
from scorewise.errors import ScorewiseWarning
from support import all_rules, own_brier, write_keys

parametrize = pytest.mark.parametrize
TRIAGE = sw.rules.cost_matrix([[0, 5, 1, 2], [50, 0, 1, 2], [3, 3, 1, 0]], ["a", "b", "c", "d"])
NAMES = ["well", "doubtful", "ill"]
PROBS, Y = members(1000, 3)
FLOOR = 1e-6
ONE_MEMBER = sw.certify(sw.binary(np.full(20, 0.1))[:, None], np.zeros(20, int), max_loss=0.2)


def by_hand(probs: Any, y: Any, rule: Any, max_loss: float, bound: float, floor: float | None):
    losses = sw.task_losses(probs, y, rule, floor=floor)
    total = [float(f"{u:.9e}") for u in sw.decompose(probs, rule).total]  # ten digits
    unit = sw.get_rule(rule).unit
    return sw.certify_threshold(losses, total, max_loss, 0.9, loss_bound=bound, unit=unit)


# -- certify ---------------------------------------------------------------------------------------


@parametrize(
    ("rule", "max_loss", "bound", "floor"),
    [
        ("zero-one", 0.15, 1, None),
        ("zero-one", 0.01, 1, None),
        ("brier", 0.3, 2, None),
        ("spherical", 0.2, 1, None),
        ("top-k:2", 0.02, 1, None),
        ("log", 0.5, -np.log(FLOOR), FLOOR),
        ("rps", 0.2, 2, None),
        ("tsallis:1.5", 0.4, 3, None),
        (TRIAGE, 10, 50, None),
    ],
)
def test_the_certificate_is_that_of_certify_threshold(rule, max_loss, bound, floor):
    policy = sw.certify(PROBS, Y, max_loss=max_loss, confidence=0.9, task_loss=rule, floor=floor)
    expected = by_hand(PROBS, Y, rule, max_loss, bound, floor)
    if expected.coverage:
        assert policy.certificate == expected
        assert policy.apply(PROBS).accepted.mean() == expected.coverage
    else:
        assert policy.certificate.threshold == -np.inf
        assert not policy.apply(PROBS).accepted.any()
    assert repr(expected) in repr(policy)
    assert (policy.n_members, policy.n_classes) == PROBS.shape[1:]
    np.testing.assert_allclose(
        policy.calibration_uncertainty, np.sort(sw.decompose(PROBS, rule).total)
    )


@pytest.mark.filterwarnings("ignore:.*cannot certify")
def test_every_rule_can_be_certified():
    for name, rule in all_rules(3).items():
        floor = FLOOR if "log" in name else None
        policy = sw.certify(PROBS, Y, max_loss=1e-3, task_loss=rule, floor=floor)
        losses = sw.task_losses(PROBS, Y, rule, floor=floor)
        assert (losses >= -1e-12).all(), name
        assert policy.apply(PROBS).accepted.mean() == policy.certificate.coverage, name


def test_predictions_bring_their_labels_and_names():
    predictions = sw.io.Predictions(PROBS, labels=Y, class_names=NAMES)
    policy = sw.certify(predictions, max_loss=0.15)
    assert policy.certificate == sw.certify(PROBS, Y, max_loss=0.15).certificate
    assert policy.class_names == tuple(NAMES)
    assert policy.apply(predictions).prediction_names == tuple(NAMES)


def test_weights_and_logits_count():
    weights = np.random.default_rng(0).uniform(size=8)
    logits = np.log(PROBS)
    policy = sw.certify(logits, Y, max_loss=0.2, weights=weights, from_logits=True)
    total = sw.decompose(PROBS, "zero-one", weights=weights).total
    np.testing.assert_allclose(policy.calibration_uncertainty, np.sort(total), atol=1e-12)
    samples = sw.Samples(logits, weights, from_logits=True)
    assert policy.apply(samples).accepted.mean() == policy.certificate.coverage
    with pytest.raises(sw.InvalidInput, match=r"without member weights, and .* certified with:"):
        policy.apply(PROBS)


@parametrize(
    ("change", "message"),
    [
        ({"y": None}, "no labels"),
        ({"y": Y[:5]}, r"labels have shape \(5,\) for 1000 rows"),
        ({"y": np.full(1000, 3)}, r"labels\[0\] is 3"),
        ({"y": np.r_[Y[:7], -1, Y[8:]]}, r"labels\[7\] is missing"),
        ({"max_loss": 1.0}, "at most 1 cannot be certified"),
        ({"max_loss": 0.0}, "at most 0 cannot be certified"),
        ({"max_loss": np.nan}, "max_loss must be a finite number"),
        ({"confidence": 1.0}, "confidence must be above 0 and below 1"),
        ({"task_loss": "log"}, "'log' can be infinite.*floor=1e-06"),
        ({"task_loss": "log", "floor": 0.4}, "floor is 0.4"),
        ({"task_loss": "nonsense"}, "no rule is called 'nonsense'"),
        ({"task_loss": "beta:1,1"}, "classes"),
        ({"task_loss": sw.rules.cost_matrix(np.eye(2))}, "2 classes"),
        ({"predictions": PROBS[:0], "y": Y[:0]}, "no rows"),
        ({"predictions": 2 * PROBS}, r"probs\[0, 0\] sums to 2"),
        ({"predictions": sw.Dirichlet(np.ones((1000, 3)))}, "must have members"),
    ],
)
def test_arguments_that_allow_no_guarantee_are_refused(change, message):
    options = {"predictions": PROBS, "y": Y, "max_loss": 0.1} | change
    with pytest.raises(sw.InvalidInput, match=message):
        sw.certify(options.pop("predictions"), **options)


def test_negative_costs_are_refused():
    gains = sw.rules.cost_matrix([[-1, 5], [5, -1], [0, 0]])
    with pytest.raises(sw.InvalidInput, match="a cost is below 0"):
        sw.certify(PROBS, Y, max_loss=1, task_loss=gains)


def test_a_custom_rule_needs_a_bound_and_cannot_be_saved(tmp_path):
    own = sw.rule_from_loss_vector(
        lambda p: (p * p).sum(axis=-1, keepdims=True) + 1 - 2 * p, name="own"
    )
    with pytest.raises(sw.InvalidInput, match=r"largest loss .*own.* not known; pass loss_bound="):
        sw.certify(PROBS, Y, max_loss=0.3, task_loss=own)
    policy = sw.certify(PROBS, Y, max_loss=0.3, task_loss=own, loss_bound=2.0)
    same = sw.certify(PROBS, Y, max_loss=0.3, task_loss="brier")
    assert policy.certificate.coverage == same.certificate.coverage > 0
    with pytest.raises(sw.InvalidInput, match=r"own.* cannot be stored"):
        policy.save(tmp_path / "policy.json")
    assert not list(tmp_path.iterdir())


@parametrize("xp", ["torch", "jax"], indirect=True)
@parametrize("component", ["total", "epistemic"])
def test_a_custom_rule_gets_arrays_of_the_library_of_the_predictions(xp, component):
    options = {"max_loss": 0.3, "component": component, "loss_bound": 2.0}
    probs = xp.asarray(PROBS)
    policy = sw.certify(probs, Y, task_loss=own_brier(xp.name), **options)
    same = sw.certify(PROBS, Y, task_loss="brier", **options)
    assert policy.certificate.coverage == same.certificate.coverage > 0
    for new in (probs, sw.Samples(probs)):
        result = policy.apply(new)
        np.testing.assert_array_equal(result.accepted, same.apply(PROBS).accepted)
        np.testing.assert_allclose(result.uncertainty, same.apply(PROBS).uncertainty, atol=1e-14)


@parametrize("rule", [sw.rules.brier, sw.rules.top_k(2), sw.rules.tsallis(1.5)])
def test_a_rule_of_the_library_is_saved_by_its_name(tmp_path, rule):
    policy = sw.certify(PROBS, Y, max_loss=0.3, task_loss=rule)
    policy.save(tmp_path / "policy.json")
    again = sw.load_policy(tmp_path / "policy.json")
    np.testing.assert_array_equal(again.apply(PROBS).accepted, policy.apply(PROBS).accepted)


def test_a_policy_holds_the_uncertainty_and_the_loss_of_every_calibration_row():
    policy = sw.certify(PROBS, Y, max_loss=0.3, task_loss="brier")
    losses, total = sw.task_losses(PROBS, Y, "brier"), policy.apply(PROBS).uncertainty
    pairs = np.c_[policy.calibration_uncertainty, policy.calibration_losses].tolist()
    assert pairs == sorted(np.c_[total, losses].tolist())
    assert policy.loss_bound == 2


def test_the_order_of_the_calibration_rows_does_not_matter():
    votes = np.round(4 * PROBS) / 4  # with many ties
    votes[..., -1] = 1 - votes[..., :-1].sum(axis=-1)
    rows = np.random.default_rng(0).permutation(len(Y))
    options = {"max_loss": 0.3, "task_loss": "brier", "normalize": True}
    first = sw.certify(np.abs(votes), Y, **options)
    second = sw.certify(np.abs(votes)[rows], Y[rows], **options)
    assert first.to_dict() == second.to_dict()


def test_half_precision_gives_nearly_the_same_policy():
    policy = sw.certify(PROBS.astype(np.float16), Y, max_loss=0.2)
    half, whole = policy.certificate, sw.certify(PROBS, Y, max_loss=0.2).certificate
    assert policy.apply(PROBS.astype(np.float16)).accepted.mean() == half.coverage
    assert half.coverage == pytest.approx(whole.coverage, abs=0.01)
    assert half.threshold == pytest.approx(whole.threshold, abs=0.01)


@parametrize("component", ["aleatoric", "epistemic"])
@parametrize("rule", ["zero-one", "brier"])
def test_another_component_may_decide(tmp_path, component, rule):
    policy = sw.certify(PROBS, Y, max_loss=0.4, task_loss=rule, component=component)
    part = getattr(sw.decompose(PROBS, rule), component)
    np.testing.assert_allclose(policy.apply(PROBS).uncertainty, part, rtol=1e-9, atol=1e-15)
    assert policy.apply(PROBS).accepted.mean() == policy.certificate.coverage > 0
    assert repr(policy).startswith(f"By {component} {rule} uncertainty: ")
    policy.save(tmp_path / "policy.json")
    again = sw.load_policy(tmp_path / "policy.json")
    assert again.component == component
    np.testing.assert_array_equal(again.apply(PROBS).accepted, policy.apply(PROBS).accepted)


# -- files -----------------------------------------------------------------------------------------


def same(policy: sw.abstain.Policy, other: sw.abstain.Policy) -> bool:
    for field in fields(sw.abstain.Certificate):
        np.testing.assert_equal(
            getattr(policy.certificate, field.name), getattr(other.certificate, field.name)
        )
    np.testing.assert_array_equal(policy.calibration_uncertainty, other.calibration_uncertainty)
    np.testing.assert_array_equal(policy.calibration_losses, other.calibration_losses)
    names = (
        "loss_bound",
        "rule",
        "component",
        "floor",
        "n_members",
        "n_classes",
        "stored_as",
        "class_names",
        "metadata",
    )
    return repr(policy) == repr(other) and all(
        getattr(policy, name) == getattr(other, name) for name in names
    )


@parametrize(
    "options",
    [
        {"max_loss": 0.15},
        {"max_loss": 0.01},
        {"max_loss": 0.5, "task_loss": "log", "floor": 1e-7 / 3},
        {"max_loss": 10, "task_loss": TRIAGE},
        {"max_loss": 10, "task_loss": sw.rules.cost_matrix(np.pi * (1 - np.eye(3)) * 10)},
        {"max_loss": 0.1, "metadata": {"input": "ü.parquet", "version": "1", "n": [1, None, 0.1]}},
    ],
)
def test_a_loaded_policy_is_the_saved_one(tmp_path, options):
    probs = PROBS.astype(np.float32)
    predictions = sw.io.Predictions(probs, labels=Y, class_names=["<b>", "ü\u202e", "c" * 100])
    policy = sw.certify(predictions, **options)
    policy.save(tmp_path / "policy.json")
    again = sw.load_policy(tmp_path / "policy.json")
    assert same(policy, again)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "policy.json").read_bytes()
    np.testing.assert_array_equal(
        again.apply(predictions).accepted, policy.apply(predictions).accepted
    )
    assert again.apply(predictions).accepted.mean() == policy.certificate.coverage
    assert again.apply(predictions).prediction_names == policy.apply(predictions).prediction_names


@settings(max_examples=30)
@given(st.lists(st.floats(0, 0.5), min_size=30, max_size=40), st.floats(0.2, 0.9))
def test_every_number_survives_to_the_last_bit(tmp_path_factory, p, max_loss):
    path = tmp_path_factory.mktemp("policies") / "policy.json"
    probs, y = sw.binary(p)[:, None], np.zeros(len(p), dtype=int)
    policy = sw.certify(probs, y, max_loss=max_loss, task_loss="brier", metadata={"p": p})
    policy.save(path)
    assert same(policy, sw.load_policy(path))


def test_a_policy_that_certifies_nothing_can_be_saved(tmp_path):
    with pytest.warns(ScorewiseWarning, match="10 certification rows .* at least 299 are needed"):
        policy = sw.certify(PROBS[:10], Y[:10], max_loss=0.01)
    policy.save(tmp_path / "policy.json")
    content = json.loads((tmp_path / "policy.json").read_text())  # which every reader takes
    assert content["certificate"]["threshold"] is None
    again = sw.load_policy(tmp_path / "policy.json")
    assert again.certificate.threshold == -np.inf
    assert np.isnan(again.certificate.bound)
    assert again.certificate.n_more_rows == policy.certificate.n_more_rows
    assert not again.apply(PROBS).accepted.any()
    assert "Nothing can be accepted" in repr(again)


def test_a_policy_that_accepts_nothing_replaces_one_that_accepts_rows_only_if_told(tmp_path):
    path = tmp_path / "policy.json"
    good, useless = (sw.certify(PROBS, Y, max_loss=loss) for loss in (0.15, 0.01))
    useless.save(path)
    good.save(path)
    with pytest.raises(sw.InvalidInput, match=r"accepts none.*pass replace=True to replace it"):
        useless.save(path)
    assert same(sw.load_policy(path), good)
    useless.save(path, replace=True)
    assert not sw.load_policy(path).certificate.coverage


def test_the_old_file_stays_where_the_new_one_cannot_be_written(tmp_path):
    path = tmp_path / "policy.json"
    policy = sw.certify(PROBS, Y, max_loss=0.15)
    policy.save(path)
    before = path.read_bytes()
    with pytest.raises((sw.InvalidInput, TypeError)):
        sw.certify(PROBS, Y, max_loss=0.1, metadata={"x": object()}).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["policy.json"]


# -- damaged files ---------------------------------------------------------------------------------


def resealed(content: Any) -> Any:
    """The content with digests of its fields as they are, which everyone can compute."""
    if not isinstance(content, dict) or "sha256" not in content:
        return content
    leaves = {}
    for name, value in content.items():
        if name not in ("sha256", "signature"):
            nested = isinstance(value, dict)
            leaves |= {f"{name}.{k}": x for k, x in value.items()} if nested else {name: value}
    texts = {name: json.dumps(value, sort_keys=True) for name, value in leaves.items()}
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    return content | {"sha256": digests}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    predictions = sw.io.Predictions(PROBS[:60], labels=Y[:60], class_names=NAMES)
    metadata = {"input": "x.npz", "rows": 60, "tags": [1.5, None, True, "a"]}
    path = tmp_path_factory.mktemp("policies") / "policy.json"
    sw.certify(predictions, max_loss=0.3, metadata=metadata).save(path)
    stored = json.loads(path.read_text())
    assert stored["certificate"]["coverage"] > 0
    assert resealed(stored) == stored
    return stored


def without_digests(content: dict[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in content.items() if name != "sha256"}


def refused(path: Path, content: Any, **options: Any) -> str:
    """The one sentence that a damaged file is refused with."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(text)
    with pytest.raises(sw.InvalidInput) as caught:
        sw.load_policy(path, **options)
    said = str(caught.value)
    assert "\n" not in said
    return said


RESTORE = "; restore the file, or certify again"
EDITS = [
    ("certificate.threshold", 0.9),
    ("certificate.threshold", 1e308),
    ("certificate.threshold", None),
    ("certificate.coverage", 1.0),
    ("certificate.bound", 0.01),
    ("certificate.loss", 0.0),
    ("certificate.max_loss", 0.1),
    ("certificate.confidence", 0.99),
    ("certificate.n_calibration", 10_000),
    ("certificate.n_more_rows", 5),
    ("guarantee", "The mean error is at most 1 %, with 99 % confidence."),
    ("rule", "brier"),
    ("component", "epistemic"),
    ("floor", 1e-3),
    ("loss_bound", 0.5),
    ("members", 9),
    ("classes", 4),
    ("dtype", "float32"),
    ("from_logits", True),
    ("weights_dtype", "float64"),
    ("class_names", NAMES[::-1]),
    ("metadata.input", "other.npz"),
    ("calibration_losses", [0.0] * 60),
    ("calibration_uncertainty", [0.0] * 60),
]


def edited(content: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    content = copy.deepcopy(content)
    outer, _, inner = name.partition(".")
    if inner:
        content[outer][inner] = value
    else:
        content[outer] = value
    return content


@parametrize(("name", "value"), EDITS, ids=[f"{name}={x}"[:50] for name, x in EDITS])
def test_an_edited_field_is_refused_by_its_name(tmp_path, content, name, value):
    said = refused(tmp_path / "policy.json", edited(content, name, value))
    assert said.startswith(f"'policy.json' is a damaged policy: {name} does not match its digest")


FOLLOWS = ["threshold", "coverage", "bound", "loss", "n_calibration", "n_more_rows"]


@parametrize(
    ("name", "value"),
    [edit for edit in EDITS if edit[0].rpartition(".")[2] in {*FOLLOWS, "guarantee"}],
)
def test_what_follows_from_the_calibration_rows_is_computed_again(tmp_path, content, name, value):
    """Also where the digests were computed again."""
    said = refused(tmp_path / "policy.json", resealed(edited(content, name, value)))
    assert said.startswith(f"'policy.json' is a damaged policy: {name} is ")
    assert "a policy of its certification rows has" in said
    assert said.endswith(RESTORE)


def test_less_loss_of_the_calibration_rows_leads_to_another_threshold(tmp_path, content):
    lucky = resealed(edited(content, "calibration_losses", [0.0] * 60))
    assert "certificate." in refused(tmp_path / "policy.json", lucky)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values that are neither lists nor mappings, and of empty ones."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, x in pairs:
        if isinstance(x, dict | list) and x:
            yield from leaves(x, (*path, key))
        else:
            yield (*path, key)


def with_leaf(content: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    content = copy.deepcopy(content)
    parent = content
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = change(parent[path[-1]])
    return content


def slightly_changed(x: Any) -> Any:
    """A value of the same kind that differs in as little as possible."""
    if isinstance(x, bool):
        return not x
    if isinstance(x, int):
        return x + 1
    if isinstance(x, float):
        return float(np.nextafter(x, np.inf))
    return f"{x}." if isinstance(x, str) else 0


def test_a_change_of_any_value_is_refused(tmp_path, content):
    places = list(leaves(content))
    assert len(places) > 150
    for place in places:
        for change in (slightly_changed, lambda _: None, lambda _: "x", lambda _: [], lambda _: {}):
            damaged = with_leaf(content, place, change)
            if damaged != content:
                refused(tmp_path / "policy.json", damaged)


@given(data=st.data())
def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path_factory, content, data):
    path = tmp_path_factory.mktemp("policies") / "policy.json"
    text = json.dumps(content).encode()
    at = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255))
    path.write_bytes(text[:at] + bytes([byte]) + text[at + 1 :])
    try:
        policy = sw.load_policy(path)
    except sw.InvalidInput:
        return
    assert policy.to_dict() == without_digests(content)


@parametrize("name", ["kind", "sha256", "calibration_losses", "certificate"])
def test_a_repeated_name_is_refused(tmp_path, content, name):
    repeated = json.dumps(content)[:-1] + f", {json.dumps(name)}: {json.dumps(content[name])}}}"
    assert json.loads(repeated) == content
    said = refused(tmp_path / "policy.json", repeated.encode())
    assert said == f"'policy.json' is a damaged policy: {name!r} occurs twice{RESTORE}"


def test_a_repeated_number_is_refused(tmp_path, content):
    repeated = json.dumps(content).replace('"threshold": ', '"threshold": 0.9, "threshold": ')
    assert "'threshold' occurs twice" in refused(tmp_path / "policy.json", repeated.encode())


@parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(tmp_path, content, number):
    number_of_content = json.dumps(content["loss_bound"])
    text = json.dumps(content).replace(
        f'"loss_bound": {number_of_content}', f'"loss_bound": {number}'
    )
    refused(tmp_path / "policy.json", text.encode())


@parametrize("name", ["other", "certificate.other"])
def test_an_unknown_field_is_refused(tmp_path, content, name):
    for damaged in (edited(content, name, 1), resealed(edited(content, name, 1))):
        assert "other" in refused(tmp_path / "policy.json", damaged)


def test_a_file_without_losses_is_refused_with_advice(tmp_path, content):
    old = {name: x for name, x in content.items() if name not in ("format", "sha256")}
    del old["calibration_losses"]
    said = refused(tmp_path / "policy.json", old)
    assert "another version of scorewise" in said
    assert said.endswith("certify again")


def test_the_order_and_the_layout_of_the_fields_do_not_matter(tmp_path, content):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(dict(reversed(content.items())), indent=4))
    assert sw.load_policy(path).to_dict() == without_digests(content)


def test_a_policy_of_another_processor_may_differ_in_the_last_digits(tmp_path, content):
    path = tmp_path / "policy.json"
    for name in ("bound", "loss"):
        value = content["certificate"][name] * (1 + 1e-13)
        path.write_text(json.dumps(resealed(edited(content, f"certificate.{name}", value))))
        assert sw.load_policy(path).to_dict() == without_digests(content)


# -- signatures ------------------------------------------------------------------------------------


def test_a_signed_policy_is_that_of_the_key(tmp_path):
    private, public = write_keys(tmp_path)
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    policy.save(tmp_path / "policy.json", signing_key=private)
    for options in ({"public_key": public}, {"public_key": str(public)}, {}):
        assert same(policy, sw.load_policy(tmp_path / "policy.json", **options))


def test_a_policy_that_is_not_signed_with_the_key_is_refused(tmp_path, content):
    path = tmp_path / "policy.json"
    _, public = write_keys(tmp_path)
    said = refused(path, content, public_key=public)
    assert said.startswith("'policy.json' is not signed; pass public_key=None if you trust")
    other, _ = write_keys(tmp_path, "other-")
    policy = sw.certify(PROBS[:60], Y[:60], max_loss=0.3)
    policy.save(path, signing_key=other)
    stored = json.loads(path.read_text())
    for signature in (stored["signature"], "", "x", "AAAA", 5, [], {}):
        said = refused(path, stored | {"signature": signature}, public_key=public)
        assert "is not signed with the key of" in said


def test_a_signed_policy_cannot_be_sealed_again(tmp_path):
    private, public = write_keys(tmp_path)
    path = tmp_path / "policy.json"
    policy = sw.certify(PROBS[:60], Y[:60], max_loss=0.3, metadata={"input": "x"})
    policy.save(path, signing_key=private)
    stored = json.loads(path.read_text())
    # another certificate, which is consistent in itself
    sw.certify(PROBS[:60], Y[:60], max_loss=0.4, metadata={"input": "x"}).save(path)
    forged = json.loads(path.read_text()) | {"signature": stored["signature"]}
    assert "not signed with the key" in refused(path, forged, public_key=public)
    for place in leaves({name: x for name, x in stored.items() if "calibration" not in name}):
        refused(path, with_leaf(stored, place, slightly_changed), public_key=public)


def test_a_wrong_key_is_named(tmp_path):
    path = tmp_path / "policy.json"
    policy = sw.certify(PROBS[:60], Y[:60], max_loss=0.3)
    private, public = write_keys(tmp_path)
    elliptic, elliptic_public = write_keys(
        tmp_path, "elliptic-", ec.generate_private_key(ec.SECP256R1())
    )
    encrypted, text = tmp_path / "encrypted.pem", tmp_path / "text.pem"
    text.write_text("nonsense")
    key = serialization.load_pem_private_key(private.read_bytes(), None)
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for wrong, message in (
        (public, "is not an Ed25519 private key"),
        (elliptic, "is not an Ed25519 private key"),
        (text, "is not an Ed25519 private key"),
        (encrypted, "is encrypted"),
    ):
        with pytest.raises(sw.InvalidInput, match=message):
            policy.save(path, signing_key=wrong)
        assert not path.exists()
    policy.save(path, signing_key=private)
    for wrong in (private, elliptic_public, text):
        with pytest.raises(sw.InvalidInput, match="is not an Ed25519 public key"):
            sw.load_policy(path, public_key=wrong)
    with pytest.raises(FileNotFoundError):
        sw.load_policy(path, public_key=tmp_path / "missing.pem")


# -- damaged files ---------------------------------------------------------------------------------


def test_a_file_that_is_not_text_is_no_policy(tmp_path):
    sentence = refused(tmp_path / "preds.npz", b"\xff\xfe\x00")
    assert sentence == "'preds.npz' is not a policy; scorewise certify makes them"


@parametrize("text", [b"", b"{", b"PAR1", b"nonsense", b'{"kind": '])
def test_a_file_that_is_not_json_is_refused(tmp_path, text):
    assert refused(tmp_path / "policy.json", text).startswith("'policy.json' is not a JSON file: ")


@parametrize("content", [None, 1, [], {}, "x", {"kind": 1}, {"kind": "other"}, [{"kind": "x"}]])
def test_a_file_that_is_not_a_policy_is_refused(tmp_path, content):
    said = refused(tmp_path / "policy.json", content)
    assert said == "'policy.json' is not a policy; scorewise certify makes them"


REQUIRED = [
    "rule",
    "floor",
    "certificate",
    "members",
    "classes",
    "class_names",
    "metadata",
    "calibration_uncertainty",
    "calibration_losses",
    "loss_bound",
    "guarantee",
]


@parametrize("field", REQUIRED)
def test_a_missing_field_is_named(tmp_path, content, field):
    without = {k: v for k, v in content.items() if k != field}
    said = refused(tmp_path / "policy.json", resealed(without))
    assert said.startswith("'policy.json' is a damaged policy: ")
    assert field in said
    assert said.endswith(RESTORE)


@parametrize(
    "field",
    [
        field.name
        for field in fields(sw.abstain.Certificate)
        if field.name not in ("n_more_rows", "drift", "unit", "fewest_rows")
    ],
)
def test_a_missing_number_is_named(tmp_path, content, field):
    damaged = copy.deepcopy(content)
    del damaged["certificate"][field]
    assert field in refused(tmp_path / "policy.json", resealed(damaged))


WRONG = [
    *((field, value) for field in ("rule", "certificate") for value in (None, 1, True, [], {})),
    *(("calibration_uncertainty", x) for x in (None, 1, "x", [], {}, [1, "a"], [[1.0]], [None])),
    *(("members", x) for x in (None, [], {})),
    *(("classes", x) for x in (None, "x", [], {}, -1)),
    *(("class_names", x) for x in (1, True, 2.5)),
    *(("metadata", x) for x in (None, 1, True, [1])),
    ("rule", "nonsense"),
    ("rule", "beta:1,1"),
    ("rule", "tsallis:0"),
    ("rule", {"costs": [[0, 1], [1, 0]], "actions": None}),
    ("rule", {"costs": [[0, 1], [1, 0], [0, None]], "actions": None}),
    ("rule", {"costs": "x", "actions": None}),
    ("rule", {"costs": [[0, 1], [1, 0], [1, 1]], "actions": ["one"]}),
    ("rule", {"costs": [[0, 1], [1, 0], [1, 1]]}),
]


@parametrize(("field", "value"), WRONG, ids=[f"{f}={v!r}"[:50] for f, v in WRONG])
def test_a_field_of_the_wrong_kind_is_refused(tmp_path, content, field, value):
    refused(tmp_path / "policy.json", resealed(content | {field: value}))


ESCAPE = [
    ("members", "x"),
    ("members", float("nan")),
    ("members", float("inf")),
    ("members", -1),
    ("members", 2.5),
    ("members", True),
    ("classes", float("inf")),
    ("classes", 2.5),
    ("metadata", "x"),
    ("metadata", []),
    ("floor", "x"),
    ("floor", []),
    ("floor", -1.0),
    ("floor", 0.9),
    ("floor", float("nan")),
    ("class_names", "abc"),
    ("class_names", ["a"]),
    ("class_names", {}),
    ("class_names", [1, 2, 3]),
    ("class_names", ["a", "a", "b"]),
    ("component", "nonsense"),
    ("from_logits", 1),
    ("dtype", "float8"),
    ("dtype", None),
    ("weights_dtype", "int64"),
    ("weights_dtype", 5),
    ("calibration_uncertainty", [0.1, float("nan")]),
    ("rule", {"costs": [[0, 1], [1]], "actions": None}),
]


@parametrize(
    ("field", "value"), [pair for pair in ESCAPE if pair[0] != "calibration_uncertainty"], ids=repr
)
def test_a_field_of_the_wrong_value_is_refused(tmp_path, content, field, value):
    refused(tmp_path / "policy.json", resealed(content | {field: value}))


def test_nan_among_the_uncertainties_is_refused(tmp_path, content):
    said = refused(tmp_path / "policy.json", content | {"calibration_uncertainty": [0.1, np.nan]})
    assert said == f"'policy.json' is a damaged policy: NaN is not a number in JSON{RESTORE}"


NUMBERS = [
    *((name, "x") for name in ("threshold", "coverage", "bound", "loss", "max_loss", "confidence")),
    ("coverage", None),
    ("coverage", -1),
    ("coverage", 2.5),
    ("coverage", float("nan")),
    ("threshold", None),
    ("threshold", float("nan")),
    ("threshold", []),
    ("bound", 2.5),
    ("max_loss", None),
    ("max_loss", -1),
    ("max_loss", float("nan")),
    ("confidence", 2.5),
    ("confidence", None),
    ("confidence", True),
    ("n_calibration", -1),
    ("n_calibration", "x"),
    ("n_calibration", 2.5),
    ("n_more_rows", "x"),
    ("drift", "x"),
    ("drift", 1),
]


@parametrize(("field", "value"), NUMBERS, ids=repr)
def test_an_impossible_number_of_the_certificate_is_refused(tmp_path, content, field, value):
    damaged = copy.deepcopy(content)
    damaged["certificate"][field] = value
    refused(tmp_path / "policy.json", resealed(damaged))


@parametrize("text", [b"[" * 100_000, b'{"kind": ' + b"1" * 5000 + b"}"])
def test_json_beyond_limits_is_refused(tmp_path, text):
    refused(tmp_path / "policy.json", text)


@parametrize("value", ["nonsense", {"costs": "x", "actions": None}])
def test_a_wrong_rule_is_blamed_on_the_file(tmp_path, content, value):
    said = refused(tmp_path / "policy.json", resealed(content | {"rule": value}))
    assert said.startswith("'policy.json' is a damaged policy: ")


def test_a_number_beyond_float64_is_named(tmp_path, content):
    text = json.dumps(content).replace('"loss_bound": 1.0', '"loss_bound": 1e999')
    said = refused(tmp_path / "policy.json", text.encode())
    assert (
        said
        == f"'policy.json' is a damaged policy: loss_bound holds a number beyond float64{RESTORE}"
    )


def test_a_message_about_a_damaged_policy_is_short(tmp_path, content):
    said = refused(tmp_path / "policy.json", resealed(content | {"classes": 10**400}))
    assert len(said) < 400


NOT_AS_SAVED = [
    ("calibration_uncertainty", lambda rows: [-0.1, *rows[1:]]),
    ("rule", lambda name: f"{name} "),
    ("format", float),
    ("loss_bound", int),
]


@parametrize(("name", "change"), NOT_AS_SAVED)
def test_what_save_would_not_write_is_refused(tmp_path, content, name, change):
    """Also where the digests were computed again."""
    said = refused(tmp_path / "policy.json", resealed(content | {name: change(content[name])}))
    assert said.startswith(f"'policy.json' is a damaged policy: {name} is ")


def test_calibration_rows_in_another_order_are_refused(tmp_path, content):
    names = ["calibration_uncertainty", "calibration_losses"]
    shuffled = content | {name: content[name][::-1] for name in names}
    said = refused(tmp_path / "policy.json", resealed(shuffled))
    assert said.startswith(f"'policy.json' is a damaged policy: {names[0]} is [")


def test_actions_must_have_names(tmp_path):
    path = tmp_path / "policy.json"
    sw.certify(PROBS, Y, max_loss=10, task_loss=TRIAGE).save(path)
    content = json.loads(path.read_text())
    content["rule"]["actions"] = [None, 5, "c", "d"]
    assert "is a damaged policy: rule is " in refused(path, resealed(content))


# -- new rows --------------------------------------------------------------------------------------


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk_bytes(monkeypatch, 24 * 8 * 37)


@parametrize("dtype", ["float32", "float64"])
@parametrize("suffix", ["npy", "parquet", "npz", "csv"])
@parametrize("rule", ["zero-one", "brier", TRIAGE])
def test_a_file_in_chunks_is_decided_as_in_memory(tmp_path, small_chunks, dtype, suffix, rule):
    policy = sw.certify(PROBS.astype(dtype), Y, max_loss=0.3, task_loss=rule)
    new = members(400, 3, seed=5)[0].astype(dtype)
    sw.write_predictions(tmp_path / f"new.{suffix}", new)
    read = sw.read_predictions(tmp_path / f"new.{suffix}")
    assert len(list(read.chunks())) > 3
    first, second, third = policy.apply(read), policy.apply(new), policy.apply(sw.Samples(new))
    for other in (second, third):
        np.testing.assert_array_equal(first.accepted, other.accepted)
        np.testing.assert_allclose(first.uncertainty, other.uncertainty, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(first.prediction, other.prediction)
    assert repr(first) == repr(second)
    np.testing.assert_array_equal(first.accepted, policy.certificate.accepts(first.uncertainty))


@parametrize("dtype", ["float32", "float64"])
@parametrize("rule", ["log", "brier", "zero-one", "spherical", "tsallis:1.5", "rps", "top-k:2"])
def test_rows_exactly_at_the_threshold_are_accepted(tmp_path, small_chunks, dtype, rule):
    """However few of them come at a time: certification rows are accepted as they were."""
    floor = 1e-6 if rule == "log" else None
    probs = PROBS[:400].astype(dtype)
    max_loss = 3 if rule == "log" else 0.45
    policy = sw.certify(probs, Y[:400], max_loss=max_loss, task_loss=rule, floor=floor)
    policy.save(tmp_path / "policy.json")
    policy = sw.load_policy(tmp_path / "policy.json")
    coverage = policy.certificate.coverage
    assert coverage > 0
    assert policy.apply(probs).accepted.mean() == coverage
    assert (policy.apply(probs).uncertainty == policy.certificate.threshold).any()
    sw.write_predictions(tmp_path / "old.npy", probs)
    assert policy.apply(sw.read_predictions(tmp_path / "old.npy")).accepted.mean() == coverage
    at = int(np.argmax(policy.apply(probs).uncertainty == policy.certificate.threshold))
    assert policy.apply(probs[at : at + 1]).accepted.all()


@parametrize("dtype", ["float32", "float64"])
@parametrize("rule", ["zero-one", "brier"])
def test_accepted_rows_do_not_depend_on_the_size_of_a_batch(dtype, rule):
    """Of members that count votes, as trees do, many rows are tied, also at the threshold."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(3, 0.3), size=20_000)
    y = (truth.cumsum(axis=1) > rng.uniform(size=(20_000, 1))).argmax(axis=1)
    probs = np.stack([rng.multinomial(10, truth) / 10 for _ in range(7)], axis=1).astype(dtype)
    for max_loss in (0.1, 0.15, 0.2):
        policy = sw.certify(probs, y, task_loss=rule, max_loss=max_loss)
        some = np.concatenate([policy.apply(part).accepted for part in np.array_split(probs, 20)])
        np.testing.assert_array_equal(some, policy.apply(probs).accepted)
        assert some.mean() == policy.certificate.coverage


@parametrize("component", ["total", "aleatoric", "epistemic"])
def test_equal_votes_are_decided_alike_in_single_and_double_precision(tmp_path, component):
    """Rows with as many votes for each class are tied, whichever members cast them."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(3, 0.5), size=2000)
    draws = rng.uniform(size=(2000, 11, 1)) < truth.cumsum(axis=1)[:, None]
    probs = np.eye(3)[draws.argmax(axis=2)]
    y = (truth.cumsum(axis=1) > rng.uniform(size=(2000, 1))).argmax(axis=1)
    single = probs.astype(np.float32)
    policy = sw.certify(single, y, max_loss=0.25, task_loss="brier", component=component)
    result = policy.apply(single)
    counts = np.sort(probs.sum(axis=1), axis=1)
    for votes in np.unique(counts, axis=0):
        assert len(np.unique(result.accepted[(counts == votes).all(axis=1)])) == 1
    assert result.accepted.mean() == policy.certificate.coverage
    sw.write_predictions(tmp_path / "votes.npy", single)
    for same_rows in (
        probs,
        sw.Samples(probs),
        sw.Samples(single[:, ::-1]),
        sw.read_predictions(tmp_path / "votes.npy"),
    ):
        np.testing.assert_array_equal(policy.apply(same_rows).accepted, result.accepted)


def test_a_policy_may_accept_all_rows_or_none():
    calm = sw.binary(np.full(2000, 0.01))[:, None]
    y = np.zeros(2000, dtype=int)
    assert sw.certify(calm, y, max_loss=0.1).apply(calm).accepted.all()
    result = sw.certify(calm, 1 - y, max_loss=0.1).apply(calm)
    assert not result.accepted.any()
    assert repr(result).startswith("0 of 2,000 rows accepted (0.0 %); new inputs look like")


def test_predictions_are_the_actions_of_least_cost():
    policy = sw.certify(PROBS, Y, max_loss=10, task_loss=TRIAGE)
    result = policy.apply(PROBS)
    assert result.prediction_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(result.prediction, sw.decide(PROBS, TRIAGE).action)
    square = sw.rules.cost_matrix(1 - np.eye(3))
    named = sw.certify(
        sw.io.Predictions(PROBS, labels=Y, class_names=NAMES), max_loss=0.2, task_loss=square
    )
    assert named.apply(PROBS, class_names=NAMES).prediction_names == tuple(NAMES)
    more = sw.rules.cost_matrix(np.c_[1 - np.eye(3), np.full(3, 0.3)])
    assert sw.certify(PROBS, Y, max_loss=0.2, task_loss=more).apply(PROBS).prediction_names == (
        "0",
        "1",
        "2",
        "3",
    )


@parametrize(
    ("new", "message"),
    [
        (PROBS[:, :5], "5 members and 3 classes, .* certified for 8 members and 3 classes"),
        (members(10, 4)[0], "8 members and 4 classes, .* certified for 8 members and 3 classes"),
        (sw.Samples(PROBS[:, :5]), "5 members"),
        (PROBS[:0], "no rows"),
        (PROBS[:, 0], r"needs rows \(n, M, K\)"),
        (sw.Dirichlet(np.ones((5, 3))), "must have members"),
        (2 * PROBS, r"probs\[0, 0\] sums to 2"),
    ],
)
def test_other_predictions_are_refused(new, message):
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    with pytest.raises(sw.InvalidInput, match=message):
        policy.apply(new)


def test_a_misspelt_option_of_apply_is_refused_with_the_nearest_one():
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    with pytest.raises(sw.InvalidInput, match="no option 'normalise'; did you mean 'normalize'"):
        policy.apply(PROBS, normalise=True)


def test_the_first_bad_row_of_a_large_array_is_named():
    probs = np.full((40_000, 8, 9), 1 / 9)
    policy = sw.certify(probs[:50], np.zeros(50, dtype=int), max_loss=0.9)
    assert policy.apply(probs, progress=False).accepted.shape == (40_000,)
    probs[39_000, 5] = 0.2
    with pytest.raises(sw.InvalidInput, match=r"^probs\[39000, 5\] sums to 1.8") as caught:
        policy.apply(probs, progress=False)
    assert caught.value.index == (39_000, 5)
    weights = np.ones((40_000, 8))
    weights[39_001, 2] = -1
    with pytest.raises(sw.InvalidInput, match=r"^weights\[39001, 2\] is -1"):
        sw.certify(probs[:50], np.zeros(50, dtype=int), weights=weights[:50], max_loss=0.9).apply(
            np.full((40_000, 8, 9), 1 / 9), weights=weights
        )


UNNAMED = (
    "no class names, and class 0 is called 'well' in the policy; pass class_names=…, the names"
)


@parametrize(
    ("new", "class_names", "message"),
    [
        (sw.io.Predictions(PROBS, class_names=NAMES[::-1]), None, "class 0 is called 'ill' here"),
        (sw.io.Predictions(PROBS), NAMES[::-1], "class 0 is called 'ill' here"),
        (sw.io.Predictions(PROBS), ["0", "1", "2"], "class 0 is called '0' here"),
        (sw.io.Predictions(PROBS), None, UNNAMED),
        (PROBS, None, UNNAMED),
        (sw.Samples(PROBS), None, UNNAMED),
        (PROBS, NAMES[:2], "there are 2 class_names for 3 classes"),
    ],
)
def test_a_policy_with_class_names_takes_only_these(new, class_names, message):
    policy = sw.certify(PROBS, Y, max_loss=0.2, class_names=NAMES)
    with pytest.raises(sw.InvalidInput, match=message):
        policy.apply(new, class_names=class_names)


def test_class_names_may_be_stated():
    policy = sw.certify(PROBS, Y, max_loss=0.2, class_names=NAMES)
    expected = policy.apply(sw.io.Predictions(PROBS, class_names=NAMES)).accepted
    for new in (PROBS, sw.Samples(PROBS), sw.io.Predictions(PROBS)):
        for names in (NAMES, np.array(NAMES)):
            np.testing.assert_array_equal(policy.apply(new, class_names=names).accepted, expected)


def test_classes_without_names_are_called_by_their_numbers():
    numbered = sw.certify(PROBS, Y, max_loss=0.2, class_names=["0", "1", "2"])
    assert numbered.apply(PROBS).accepted.any()
    from_one = sw.certify(PROBS, Y + 1, max_loss=0.2, class_names=["1", "2", "3"])
    with pytest.raises(sw.InvalidInput, match="class 0 is called '1' in the policy"):
        from_one.apply(PROBS)


def test_a_policy_without_class_names_takes_any():
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    result = policy.apply(sw.io.Predictions(PROBS, class_names=NAMES))
    np.testing.assert_array_equal(result.accepted, policy.apply(PROBS).accepted)


def test_rows_are_rescaled_on_request():
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    scaled = policy.apply(3 * PROBS, normalize=True)
    np.testing.assert_allclose(scaled.uncertainty, policy.apply(PROBS).uncertainty, atol=1e-12)


@parametrize("suffix", ["npy", "parquet"])
def test_a_bad_row_of_a_file_is_named(tmp_path, small_chunks, suffix):
    bad = PROBS[:400].copy()
    bad[380, 1] = [0.5, 0.1, 0.1]
    sw.write_predictions(tmp_path / f"bad.{suffix}", bad)
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    with pytest.raises(sw.InvalidInput, match=r"row 380\b.*probs\[380, 1\]|^probs\[380, 1\]"):
        policy.apply(sw.read_predictions(tmp_path / f"bad.{suffix}"))


# -- drift -----------------------------------------------------------------------------------------


def test_drift_is_detected_and_does_not_change_the_policy():
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    assert not policy.apply(members(500, 3, seed=9)[0]).drift
    flat = np.random.default_rng(0).dirichlet(np.full(3, 50.0), size=(500, 8))
    result = policy.apply(flat)
    assert result.drift.has_drifted
    assert result.certificate.has_drifted
    assert "do not look like the certification data, so the guarantee may not hold" in repr(result)
    assert "WARNING" in repr(result.certificate)
    assert policy.certificate.drift is None
    assert result.drift.mean_now > result.drift.mean_before
    assert "WARNING" not in repr(policy)


@parametrize("n_new", [1, 20, 300])
def test_the_rate_of_false_alarms_is_that_of_the_test(n_new):
    """Calibration rows and new rows are drawn anew each time, with ties."""
    draws, rate = 400, 0.1
    rng = np.random.default_rng(0)
    policy = sw.certify(PROBS, Y, max_loss=0.2)
    alarms = 0
    for i in range(draws):
        old, new = (np.round(rng.uniform(0, 0.5, n), 2 if i % 2 else 9) for n in (200, n_new))
        alarms += replace(policy, calibration_uncertainty=old).check_drift(new, rate).has_drifted
    assert alarms <= binom.ppf(1 - 1e-4, draws, rate)


def test_false_alarms_with_many_calibration_rows():
    draws, rate = 60, 0.1
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(draws):
        old, new = (sw.binary(rng.uniform(0, 0.5, n))[:, None] for n in (20_000, 5_000))
        policy = sw.certify(old, np.zeros(len(old), dtype=int), max_loss=0.2)
        alarms += policy.apply(new, false_alarm_rate=rate).drift.has_drifted
    assert alarms <= binom.ppf(1 - 1e-4, draws, rate)


def test_the_guarantee_holds_over_the_population():
    """The mean loss of all rows of the population that a policy accepts."""
    draws, confidence, broken = 300, 0.8, 0
    rng = np.random.default_rng(1)
    pool = rng.uniform(0, 0.5, 100_000)
    chance = np.minimum(1, 1.3 * pool)  # of an error; the model says 1.0 times
    order = np.argsort(pool)
    sums = np.cumsum(chance[order]) / np.arange(1, len(pool) + 1)
    for _ in range(draws):
        some = rng.integers(len(pool), size=300)
        y = (rng.uniform(size=300) < chance[some]).astype(int)
        policy = sw.certify(sw.binary(pool[some])[:, None], y, max_loss=0.15, confidence=confidence)
        n = np.searchsorted(pool[order], policy.certificate.threshold, side="right")
        broken += bool(n) and sums[n - 1] > 0.15
    assert broken <= binom.ppf(1 - 1e-4, draws, 1 - confidence)


def test_infinities_numpy_values_and_keys_that_are_numbers_become_json(tmp_path):
    metadata = {
        1: np.float64("nan"),
        "a": [np.inf, -np.inf, np.array([1.0, np.nan]), np.bool_(True)],
        "b": (np.int64(3), None, "ü", Path("x.npz")),
    }
    path = tmp_path / "policy.json"
    sw.certify(PROBS, Y, max_loss=0.1, metadata=metadata).save(path)
    stored = json.loads(path.read_text(), parse_constant=pytest.fail)["metadata"]
    assert stored == {"1": None, "a": [None, None, [1.0, None], True], "b": [3, None, "ü", "x.npz"]}


def test_everything_is_in_the_dictionary():
    policy = sw.certify(PROBS, Y, max_loss=0.2, metadata={"input": "x"})
    content = policy.to_dict()
    assert content["guarantee"] == repr(policy)
    unit = asdict(policy.rule.unit)
    assert content["certificate"] | {"unit": unit, "drift": None} == asdict(policy.certificate)
    assert (content["members"], content["classes"], content["metadata"]) == (8, 3, {"input": "x"})


@given(st.floats(0, 1))
def test_uncertainty_has_ten_digits_whatever_its_size(p):
    probs = np.array([[[1 - p, p]]])
    for rule in ("log", "brier", "zero-one", "spherical"):
        exact = float(sw.get_rule(rule).entropy(probs[0, 0]))
        policy = replace(ONE_MEMBER, rule=sw.get_rule(rule))
        rounded = float(policy.apply(probs).uncertainty[0])
        assert rounded == pytest.approx(exact, rel=1e-9, abs=1e-290)


def test_labels_may_be_names_of_classes():
    probs = np.random.default_rng(0).dirichlet([0.3, 0.3], size=(300, 4))
    labels = probs.mean(axis=1).argmax(axis=1)
    names = np.array(["ill", "well"])
    by_index = sw.certify(probs, labels, max_loss=0.1)
    by_name = sw.certify(probs, names[labels], max_loss=0.1, class_names=names.tolist())
    assert by_name.class_names == ("ill", "well")
    assert by_name.certificate == by_index.certificate
