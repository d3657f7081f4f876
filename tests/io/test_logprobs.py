"""Answers of text classifiers: every structure, members, tokens, missing probability, messages."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import scorewise as sw
from answers_support import (
    TOKEN_STYLES,
    batch_line,
    chat,
    completion,
    position,
    request_output,
    response,
    scores,
    write_lines,
)
from io_support import examples
from scorewise.errors import ScorewiseWarning

# most answers here leave more to other tokens than those of real models; one test is about that
pytestmark = pytest.mark.filterwarnings("ignore:the labels have")

LABELS = ["yes", "no"]
ANSWER = {"yes": 0.7, " no": 0.2, "Maybe": 0.06}


def rows(*probs: Any, **fields: Any) -> list[dict[str, Any]]:
    """Chat completions, a line with an id for each."""
    return [{"id": i, **fields, "response": chat(p)} for i, p in enumerate(probs)]


def message_of(lines: Any, labels: Any = LABELS, **options: Any) -> str:
    with pytest.raises(sw.InvalidInput) as caught:
        sw.read_logprobs(lines, labels, **options)
    return str(caught.value)


# -- structures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", TOKEN_STYLES)
@pytest.mark.parametrize("wrap", ["bare", "response", "responses", "batch"])
def test_every_structure_gives_the_same_predictions(style: str, wrap: str, tmp_path: Path):
    make = TOKEN_STYLES[style]
    members = [ANSWER, {" no": 0.5, "yes": 0.25}]
    lines = {
        "bare": make(*members),
        "response": {"id": "a", "response": make(*members)},
        "responses": {"id": "a", "responses": [make(p) for p in members]},
        "batch": batch_line(make(*members), "a"),
    }
    read = sw.read_logprobs(write_lines(tmp_path / "a.jsonl", [lines[wrap]]), LABELS)
    np.testing.assert_allclose(read.probs, [[[0.7, 0.2, 0.1], [0.25, 0.5, 0.25]]], rtol=1e-12)
    assert read.class_names == ("yes", "no", "other")
    assert read.path == tmp_path / "a.jsonl"
    if wrap == "bare":
        assert read.ids is None  # the id of a response is not that of a row, unless it is named
        field = "request_id" if "request_id" in lines[wrap] else "id"
        named = sw.read_logprobs([lines[wrap]], LABELS, ids=field)
        assert named.ids.tolist() == [lines[wrap][field]]
    else:
        assert read.ids.tolist() == ["a"]


@examples
@given(data=st.data())
def test_probabilities_are_read_back(data: st.DataObject, tmp_path: Path):
    style = data.draw(st.sampled_from(sorted(TOKEN_STYLES)))
    n, m, c, k = (data.draw(st.integers(low, 4)) for low in (1, 1, 1, 2))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    probs = rng.dirichlet(np.ones(k + 1), size=(n, m * c)) * 0.999 + 0.001 / (k + 1)
    names = [f"label-{j}" for j in range(k)]
    labels = rng.integers(0, k, n)
    lines = []
    for i in range(n):
        # tokens of a label are summed, in the order of any
        answers = [
            {f"{' ' * (j % 2)}{names[j]}": p[j] for j in rng.permutation(k)} for p in probs[i]
        ]
        for line in range(m):
            choices = TOKEN_STYLES[style](*answers[line * c : (line + 1) * c])
            lines.append((line, {"id": i, "label": names[labels[i]], "response": choices}))
    if data.draw(st.booleans()):  # prompt by prompt rather than row by row
        lines.sort(key=lambda line: line[0])
    read = sw.read_logprobs(
        write_lines(tmp_path / "a.jsonl", [line for _, line in lines]),
        {name: name for name in names},
    )
    np.testing.assert_allclose(read.probs, probs, atol=1e-12)
    np.testing.assert_array_equal(read.labels, labels)
    np.testing.assert_array_equal(read.ids, range(n))


def test_scores_of_pipelines_are_read_whatever_their_order(tmp_path: Path):
    probs = [{"neg": 0.2, "neutral": 0.5, "pos": 0.3}, {"neg": 0.7, "neutral": 0.1, "pos": 0.2}]
    expected = [[list(p.values())] for p in probs]
    plain = sw.read_logprobs(write_lines(tmp_path / "a.jsonl", map(scores, probs)))
    np.testing.assert_allclose(plain.probs, expected)
    assert plain.class_names == ("neg", "neutral", "pos")
    with_ids = [{"id": i, "label": "pos", "scores": scores(p)} for i, p in enumerate(probs)]
    read = sw.read_logprobs(with_ids, ["pos", "neg", "neutral"])
    np.testing.assert_allclose(read.probs, np.array(expected)[..., [2, 0, 1]])
    np.testing.assert_array_equal(read.labels, [0, 0])
    in_memory = sw.read_logprobs(map(scores, probs))
    np.testing.assert_array_equal(in_memory.probs, plain.probs)


def test_lists_of_scores_are_members():
    line = {"id": 0, "scores": [scores({"a": 0.2, "b": 0.8}), scores({"a": 0.6, "b": 0.4})]}
    np.testing.assert_allclose(sw.read_logprobs([line]).probs, [[[0.2, 0.8], [0.6, 0.4]]])
    assert "texts or members" in message_of([line["scores"]])


def test_zero_shot_classification_is_read():
    line = {"sequence": "…", "labels": ["urgent", "later"], "scores": [0.9, 0.1], "y": "later"}
    read = sw.read_logprobs([line])
    assert read.class_names == ("later", "urgent")
    np.testing.assert_allclose(read.probs, [[[0.1, 0.9]]])
    np.testing.assert_array_equal(read.labels, [0])


def test_rounded_scores_are_rescaled_and_others_are_refused():
    read = sw.read_logprobs([scores({"a": 0.3333, "b": 0.3333, "c": 0.3333})])
    np.testing.assert_allclose(read.probs, 1 / 3)
    assert "sum to 1.7" in message_of([scores({"a": 0.9, "b": 0.8})], None)
    assert "exclude each other" in message_of([scores({"a": 0.9, "b": 0.8})], None)
    assert "probability" in message_of([scores({"a": 1.9, "b": 0.8})], None)
    assert "'a' occurs twice" in message_of([scores({"a": 0.5}) * 2], ["a", "b"])


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        ({"label": "pos", "score": 0.9}, None),
        (scores({"pos": 0.9}), None),
        (scores({"pos": 0.9}), ["pos", "neg"]),
    ],
)
def test_best_labels_alone_are_refused(line: Any, labels: Any):
    assert "top_k=None" in message_of([line], labels)


def test_scores_of_the_best_labels_are_read_on_request():
    best = [scores({"a": 0.7, "b": 0.2}), scores({"a": 0.5, "c": 0.3})]
    with pytest.warns(ScorewiseWarning, match="do not report all labels"):
        read = sw.read_logprobs(best, ["a", "b", "c"], missing="other")
    np.testing.assert_allclose(read.probs[:, 0], [[0.7, 0.2, 0, 0.1], [0.5, 0, 0.3, 0.2]])


def test_the_sampled_token_counts_where_it_is_none_of_the_most_likely():
    answer = chat({"no": 0.6, "Maybe": 0.3})
    answer["choices"][0]["logprobs"]["content"][0] |= {"token": "yes", "logprob": math.log(0.05)}
    read = sw.read_logprobs([answer], LABELS)
    np.testing.assert_allclose(read.probs, [[[0.05, 0.6, 0.35]]])


@pytest.mark.parametrize("make", [chat, response])
def test_tokens_with_the_same_text_are_summed(make: Any):
    answer = make({"yes": 0.5, "no": 0.2, "x": 0.25})
    [top] = [part["top_logprobs"] for part in tokens_of(answer)]
    top[2] |= {"token": "yes", "bytes": top[0]["bytes"]}
    np.testing.assert_allclose(sw.read_logprobs([answer], LABELS).probs, [[[0.75, 0.2, 0.05]]])


@pytest.mark.parametrize("make", [chat, response])
def test_a_token_that_is_listed_twice_counts_once(make: Any):
    answer = make({"yes": 0.4, "no": 0.2, "x": 0.25})
    [top] = [part["top_logprobs"] for part in tokens_of(answer)]
    top.insert(0, dict(top[0]))
    np.testing.assert_allclose(sw.read_logprobs([answer], LABELS).probs, [[[0.4, 0.2, 0.4]]])


def tokens_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The generated tokens of a chat completion or a response."""
    if "choices" in answer:
        return answer["choices"][0]["logprobs"]["content"]
    return answer["output"][-1]["content"][0]["logprobs"]


def test_tokens_of_vllm_with_the_same_text_are_summed():
    answer = request_output({"yes": 0.5, "no": 0.2, "x": 0.25})
    answer["outputs"][0]["logprobs"][0]["9644"]["decoded_token"] = "yes"
    np.testing.assert_allclose(sw.read_logprobs([answer], LABELS).probs, [[[0.75, 0.2, 0.05]]])


def test_position_says_which_token_answers():
    answer = chat({"Let": 0.9, "yes": 0.05, "no": 0.01})
    answer["choices"][0]["logprobs"]["content"].append(position(ANSWER))
    last = sw.read_logprobs([answer], LABELS, position=-1)
    np.testing.assert_allclose(last.probs, [[[0.7, 0.2, 0.1]]])
    assert "responses[0]: it has 2 tokens, and none at position 2" in message_of(
        [answer], position=2
    )


# -- rows and members ------------------------------------------------------------------------------


def test_ids_of_a_batch_have_row_and_member_in_any_order(tmp_path: Path):
    answers = {
        f"row-{i}/prompt-{m}": {"yes": 0.1 + 0.2 * i + 0.1 * m, "no": 0.1}
        for i in range(3)
        for m in range(2)
    }
    expected = [[0.1 + 0.2 * i + 0.1 * m for m in range(2)] for i in range(3)]
    order = ["2/1", "0/0", "1/1", "0/1", "1/0", "2/0"]
    ids = ["row-{}/prompt-{}".format(*name.split("/")) for name in order]
    lines = [batch_line(chat(answers[name]), name) for name in ids]
    path = write_lines(tmp_path / "a.jsonl", lines)
    read = sw.read_logprobs(path, LABELS, id_separator="/")
    assert read.ids.tolist() == ["row-2", "row-0", "row-1"]
    # members are in the order of the first lines: prompt-1, prompt-0
    np.testing.assert_allclose(read.probs[..., 0], np.array(expected)[[2, 0, 1]][:, ::-1])
    separate = sw.read_logprobs(path, LABELS)
    assert separate.shape == (6, 1, 3)


def test_rows_without_all_members_are_refused():
    answers = rows(ANSWER, ANSWER) + rows(ANSWER)
    assert "row 1 (responses[1]) has 1 of the 2 answers that others have" in message_of(answers)
    lines = [batch_line(chat(ANSWER), name) for name in ("a/1", "a/2", "b/1")]
    problem = message_of(lines, id_separator="/")
    assert "row 'b' (responses[2]) has 0 answers of the member '2'" in problem
    twice = [batch_line(chat(ANSWER), name) for name in ("a/1", "a/1", "b/1", "b/1")]
    assert "row 'a' (responses[0]) has 2 answers of the member '1'" in message_of(
        twice, id_separator="/"
    )
    assert "the id 'b' has no '/'" in message_of([batch_line(chat(ANSWER), "b")], id_separator="/")
    assert "has 2 answers, and responses[0] has 1" in message_of(
        [chat(ANSWER), chat(ANSWER, ANSWER)]
    )


def test_fields_of_ids_and_labels_may_have_other_names():
    lines = [
        {"case": "a", "id": 0, "truth": "no", "label": "yes", "response": chat(ANSWER)},
        {"case": "b", "id": 1, "truth": None, "label": "yes", "response": chat(ANSWER)},
    ]
    read = sw.read_logprobs(lines, LABELS, ids="case", label_field="truth")
    assert read.ids.tolist() == ["a", "b"]
    np.testing.assert_array_equal(read.labels, [1, -1])
    np.testing.assert_array_equal(sw.read_logprobs(lines, LABELS).labels, [0, 0])
    assert "there is no 'thruth'" in message_of(lines, label_field="thruth")
    assert "pass label_field='truth' if you mean that" in message_of(lines, label_field="thruth")


@pytest.mark.parametrize(
    ("label", "index"), [("yes", 0), ("no", 1), (None, -1), (math.nan, -1), (1, 1), ("other", 2)]
)
def test_true_labels_are_names_or_indices(label: Any, index: int):
    read = sw.read_logprobs(rows(ANSWER, label=label) * 2, (label for label in LABELS))
    np.testing.assert_array_equal(read.labels, [index])


def test_wrong_labels_and_ids_are_refused():
    assert "responses[0]: the label is 'Yes', which is not one of the classes" in message_of(
        rows(ANSWER, label="Yes")
    )
    assert "'True', which is not one of the classes" in message_of(rows(ANSWER, label=True))
    problem = message_of(rows(ANSWER, label="yes") + rows(ANSWER, label="no"))
    assert (
        "responses[1] has the label 'no', and responses[0], of the same row, has 'yes'" in problem
    )
    assert "has no label, and responses[0] has the label 'label'" in message_of(
        rows(ANSWER, label="yes") + rows(ANSWER)
    )
    assert "could each be the labels" in message_of(rows(ANSWER, y="yes", target="no"))
    no_text = [{"id": None, "response": chat(ANSWER)}]
    assert "the id is None" in message_of(no_text)


# -- labels and tokens -----------------------------------------------------------------------------


def test_labels_match_tokens_with_and_without_a_space():
    answer = {"yes": 0.1, " yes": 0.2, "Ġyes": 0.1, "▁yes": 0.1, "Yes": 0.3, "no": 0.05}
    with pytest.warns(ScorewiseWarning, match="55 % of the probability on average.*'Yes'"):
        exact = sw.read_logprobs([chat(answer)], LABELS)
    np.testing.assert_allclose(exact.probs, [[[0.5, 0.05, 0.45]]])
    mapped = sw.read_logprobs([chat(answer)], {"yes": ["yes", " Yes"], "no": "no"})
    np.testing.assert_allclose(mapped.probs, [[[0.8, 0.05, 0.15]]])


def test_first_tokens_of_long_labels_must_be_named():
    answer = chat({"neg": 0.6, "pos": 0.3})
    labels = ["negative", "positive"]
    assert "no answer has one of the labels; the most likely other tokens are 'neg', 'pos'" in (
        message_of([answer], labels)
    )
    read = sw.read_logprobs([answer], {"negative": "neg", "positive": "pos"})
    np.testing.assert_allclose(read.probs, [[[0.6, 0.3, 0.1]]])
    shared = {"unlikely": "un", "uncertain": ["un", "doubt"]}
    assert "'un' cannot be a token of 'uncertain' and of 'unlikely'" in message_of([answer], shared)


@pytest.mark.parametrize("labels", ["yes", ["yes"], ["yes", "yes"], ["yes", ""], 3, {"a": "x"}])
def test_labels_that_are_no_classes_are_refused(labels: Any):
    assert "label" in message_of(rows(ANSWER), labels)


def test_labels_are_those_of_the_rows_by_default():
    answers = [*rows(ANSWER, label="yes"), *rows(ANSWER, label="no")]
    answers[1]["id"] = 1
    with pytest.warns(ScorewiseWarning, match="taken from the labels of the rows: 'no', 'yes'"):
        read = sw.read_logprobs(iter(answers))
    assert read.class_names == ("no", "yes", "other")
    np.testing.assert_array_equal(read.labels, [1, 0])
    assert "which of them are labels is not known; pass labels=" in message_of(rows(ANSWER), None)


# -- missing probability ---------------------------------------------------------------------------


def test_missing_probability_is_kept_refused_or_rescaled():
    answer = chat({"yes": 0.5, "no": 0.45, "x": 0.01})
    other = sw.read_logprobs([answer], LABELS)
    np.testing.assert_allclose(other.probs, [[[0.5, 0.45, 0.05]]])
    rescaled = sw.read_logprobs([answer], LABELS, missing="renormalize")
    np.testing.assert_allclose(rescaled.probs, [[[0.5 / 0.95, 0.45 / 0.95]]])
    assert rescaled.class_names == ("yes", "no")
    problem = message_of([answer], missing="refuse")
    assert problem.startswith("responses[0]: the labels have 0.95 of the probability, less than")
    assert "pass missing='other'" in problem
    lenient = sw.read_logprobs([answer], LABELS, missing="refuse", min_mass=0.95 - 1e-9)
    np.testing.assert_array_equal(lenient.probs, rescaled.probs)


def test_labels_that_are_not_reported_have_a_warning():
    answers = [chat({"yes": 0.9, "x": 0.06}), chat({"yes": 0.9, "no": 0.1})]
    text = r"50 % of the answers do not report all labels; .* is in 'other'; it is at most 0.0400"
    with pytest.warns(ScorewiseWarning, match=text):
        read = sw.read_logprobs(answers, LABELS)
    np.testing.assert_allclose(read.probs[:, 0], [[0.9, 0, 0.1], [0.9, 0.1, 0]], atol=1e-12)
    with pytest.warns(ScorewiseWarning, match="'no' in none"):
        sw.read_logprobs(answers[:1], LABELS)


def test_tokens_that_openai_does_not_report_are_not_impossible():
    answer = completion({"yes": 0.9, "x": 0.01})
    answer["choices"][0]["logprobs"]["top_logprobs"][0]["no"] = -9999.0
    with pytest.warns(ScorewiseWarning, match="100 % of the answers"):
        read = sw.read_logprobs([answer], LABELS)
    np.testing.assert_allclose(read.probs, [[[0.9, 0, 0.1]]])


def test_sums_above_one_by_rounding_are_rescaled():
    read = sw.read_logprobs([chat({"yes": 0.7001, "no": 0.3001})], LABELS)
    np.testing.assert_allclose(read.probs.sum(axis=-1), 1, rtol=1e-15)
    np.testing.assert_allclose(read.probs[0, 0], np.array([0.7001, 0.3001, 0]) / 1.0002)
    assert "sum to 1.2, more than 1" in message_of([chat({"yes": 0.9, "no": 0.3})])


def test_a_label_may_not_be_called_like_the_rest():
    answer = chat({"yes": 0.6, "other": 0.4})
    assert "missing='refuse'" in message_of([answer], ["yes", "other"])
    read = sw.read_logprobs([answer], ["yes", "other"], missing="refuse")
    np.testing.assert_allclose(read.probs, [[[0.6, 0.4]]])


def test_answers_without_any_label_cannot_be_rescaled():
    answers = [chat(ANSWER), chat({"x": 0.9})]
    assert message_of(answers, missing="renormalize").startswith("responses[1]: no label has any")


# -- damaged lines ---------------------------------------------------------------------------------


def damaged(**logprob: Any) -> dict[str, Any]:
    answer = chat(ANSWER)
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1] |= logprob
    return answer


def without_logprobs() -> dict[str, Any]:
    answer = chat(ANSWER)
    answer["choices"][0]["logprobs"] = None
    return answer


def refused() -> dict[str, Any]:
    answer = chat(ANSWER)
    tokens = answer["choices"][0]["logprobs"]["content"]
    answer["choices"][0]["message"] |= {"content": None, "refusal": "I cannot say."}
    answer["choices"][0]["logprobs"] = {"content": None, "refusal": tokens}
    return answer


def refused_response() -> dict[str, Any]:
    answer = response(ANSWER)
    answer["output"][-1]["content"] = [{"type": "refusal", "refusal": "I cannot say."}]
    return answer


def failed(status: int | None) -> dict[str, Any]:
    line = batch_line({"error": {"message": "overloaded"}}, "a")
    if status is None:
        return line | {"response": None, "error": {"code": "batch_expired", "message": "late"}}
    line["response"]["status_code"] = status
    return line


DAMAGED = {
    "NaN": (damaged(logprob=math.nan), "log-probability of ' no' is nan"),
    "positive": (damaged(logprob=0.5), "it must be a number of at most 0"),
    "text": (damaged(logprob="-0.5"), "it must be a number of at most 0"),
    "no token": (damaged(token=None), "None is in the place of a token"),
    "no logprobs": (without_logprobs(), "top_logprobs=20"),
    "refusal": (refused(), "the model refused to answer: 'I cannot say.'; ask again, or remove"),
    "refusal of a response": (refused_response(), "the model refused to answer: 'I cannot say.'"),
    "array": ([chat(ANSWER), chat(ANSWER)], "item 0 is {'id': 'chatcmpl-B9MHDb"),
    "array of numbers": ([0.2, 0.8], "item 0 is 0.2 and no label with its score"),
    "failed": (failed(503), "failed with status 503"),
    "expired": (failed(None), "batch_expired"),
    "no response": ({"id": 0, "response": None}, "there is no response"),
    "no choices": ({"choices": []}, "has no answer"),
    "other keys": ({"text": "yes", "probability": 0.3}, "has 'text', 'probability'"),
    "half": ({"choices": [{"logprobs": {"content": [{"token": "yes"}]}}]}, "incomplete"),
    "number": (3, "3 is not a response"),
    "other kind": (completion(ANSWER), "line 2 is a completion, and line 1 is a chat completion"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_lines_are_named(case: str, tmp_path: Path):
    line, expected = DAMAGED[case]
    problem = message_of(write_lines(tmp_path / "a.jsonl", [chat(ANSWER), line]))
    assert problem.startswith("'a.jsonl': line 2")
    assert expected in problem


@pytest.mark.parametrize("text", ['{"choices": [', "[\n", "\xff", "yes", "[" * 100_000])
def test_lines_that_are_not_json_are_named(text: str, tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n" + json.dumps(chat(ANSWER)).encode() + b"\n\n" + text.encode("latin-1"))
    problem = message_of(path)
    assert problem.startswith("'a.jsonl': line 4 is not valid JSON")


def test_an_array_of_responses_in_one_line_is_told_how_to_be_read(tmp_path: Path):
    answers = rows(ANSWER, ANSWER)
    path = write_lines(tmp_path / "a.json", [answers])
    assert "pass the list itself, as in read_logprobs(json.load(file), labels)" in message_of(path)
    assert sw.read_logprobs(json.loads(path.read_text()), LABELS).shape == (2, 1, 3)


def test_empty_files_are_refused(tmp_path: Path):
    assert message_of(write_lines(tmp_path / "a.jsonl", [])) == "'a.jsonl': there are no responses"
    with pytest.raises(FileNotFoundError):
        sw.read_logprobs(tmp_path / "b.jsonl", LABELS)


def test_minus_infinity_is_a_probability_of_zero(tmp_path: Path):
    answer = damaged(logprob=-math.inf)
    with pytest.warns(ScorewiseWarning, match="do not report all labels"):
        read = sw.read_logprobs(write_lines(tmp_path / "a.jsonl", [answer]), LABELS)
    np.testing.assert_allclose(read.probs, [[[0.7, 0, 0.3]]])


@pytest.mark.parametrize(
    "option", [{"missing": "drop"}, {"min_mass": 0}, {"id_separator": ""}, {"position": "last"}]
)
def test_wrong_options_are_refused(option: dict[str, Any]):
    assert next(iter(option)) in message_of(rows(ANSWER), **option)


# -- the format ------------------------------------------------------------------------------------


def test_read_predictions_reads_the_same(tmp_path: Path):
    lines = [
        {**line, "label": "no", "case": f"c{i}"} for i, line in enumerate(rows(ANSWER, ANSWER))
    ]
    path = write_lines(tmp_path / "a.jsonl", lines)
    tokens = {"yes": ["yes", "Maybe"], "no": "no"}
    options = {"missing": "renormalize", "ids": "case"}
    expected = sw.read_logprobs(path, tokens, **options)
    read = sw.read_predictions(path, tokens=tokens, labels="label", **options)
    named = sw.read_predictions(
        path, class_names=LABELS, tokens={"yes": ["yes", "Maybe"]}, **options
    )
    for predictions in (read, named):
        np.testing.assert_array_equal(predictions.probs, expected.probs)
        np.testing.assert_array_equal(predictions.labels, expected.labels)
        assert predictions.ids.tolist() == ["c0", "c1"]
        assert predictions.class_names == ("yes", "no")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"member_axis": 0}, "pass member_axis=None"),
        ({"probs": "p"}, "pass probs=None"),
        ({"tokens": {"maybe": "x"}}, "tokens are of 'maybe', which is not in class_names"),
        ({"labels": "truth"}, "there is no 'truth'"),
        ({"class_names": None, "labels": "yes,no"}, "pass class_names=('yes', 'no')"),
        ({"class_names": None}, "pass class_names=…"),
        ({"class_names": ["No", "Yes"]}, "pass tokens=…"),
    ],
)
def test_read_predictions_advises_its_own_arguments(
    options: dict[str, Any], expected: str, tmp_path: Path
):
    path = write_lines(tmp_path / "a.jsonl", rows(ANSWER))
    with pytest.raises(sw.InvalidInput) as caught:
        sw.read_predictions(path, **{"class_names": LABELS} | options)
    assert expected in str(caught.value)


def test_one_model_means_one_member(tmp_path: Path):
    path = write_lines(tmp_path / "a.jsonl", rows(ANSWER))
    assert sw.read_predictions(path, LABELS, one_model=True).shape == (1, 1, 3)
    write_lines(path, rows(ANSWER) * 2)
    with pytest.raises(sw.InvalidInput, match="rows have 2 members"):
        sw.read_predictions(path, LABELS, one_model=True)


def test_options_of_answers_are_refused_for_arrays(tmp_path: Path):
    sw.write_predictions(tmp_path / "a.npz", np.full((2, 3, 2), 0.5))
    for option in ({"missing": "other"}, {"tokens": {"a": "b"}}, {"position": 0}):
        with pytest.raises(sw.InvalidInput, match=r"is for answers .* in \.jsonl files"):
            sw.read_predictions(tmp_path / "a.npz", **option)


def test_answers_can_only_be_read(tmp_path: Path):
    with pytest.raises(sw.InvalidInput, match="can only be read"):
        sw.write_predictions(tmp_path / "a.jsonl", np.full((2, 3, 2), 0.5))
    assert not list(tmp_path.iterdir())


def test_answers_become_files_of_other_formats_and_are_evaluated(tmp_path: Path):
    rng = np.random.default_rng(0)
    truth = rng.beta(0.5, 0.5, 200)
    draws = np.clip(truth[:, None] + rng.normal(scale=0.05, size=(200, 3)), 0.001, 0.98)
    answers = [
        {
            "id": i,
            "label": LABELS[int(rng.random() > truth[i])],
            "response": chat(*({"yes": 0.99 * p, "no": 0.99 * (1 - p)} for p in draws[i])),
        }
        for i in range(200)
    ]
    read = sw.read_logprobs(write_lines(tmp_path / "a.jsonl", answers), LABELS)
    sw.write_predictions(tmp_path / "a.parquet", read)
    again = sw.read_predictions(tmp_path / "a.parquet")
    np.testing.assert_array_equal(again.probs, read.probs)
    evaluation = sw.evaluate(again, n_resamples=100, random_state=0)
    assert evaluation.comparison.best
    policy = sw.certify(read, max_loss=0.3)
    assert policy.apply(read).accepted.shape == (200,)
    scored = sw.score_file(
        tmp_path / "a.jsonl", "log", tmp_path / "U.csv", class_names=LABELS, missing="renormalize"
    )
    assert scored.n_rows == 200
