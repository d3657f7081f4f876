"""What a line of responses holds: the tokens, or labels, of each answer with their probabilities.

The structure of a line decides how it is read. Known are the responses of OpenAI (chat completions,
completions, the Responses API, batches), those of vLLM (its server, which answers like OpenAI, and
its ``RequestOutput``) and the outputs of Hugging Face's pipelines for classification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scorewise._text import quoted, quoted_names
from scorewise.errors import InvalidInput

SCORES = "scores of a classifier"  # the one style that has labels, and no tokens
TOLERANCE = 1e-3  # of sums of rounded probabilities

_UNREPORTED = -9999.0  # in place of the log-probability of a token beyond the most likely ones

Answer = list[tuple[str, float]]  # tokens, or labels, and their probabilities


@dataclass(frozen=True)
class ParsedLine:
    """A line of a file, or an item of a list.

    Attributes
    ----------
    style : str
        The kind of response, for messages.
    answers : list of Answer
        One for each choice, or for each member of a list.
    fields : mapping
        What may be an id or a label.
    own_fields : frozenset of str
        Those of the response itself, such as its id, which count only if the user names them.
    """

    style: str
    answers: list[Answer]
    fields: Mapping[str, Any]
    own_fields: frozenset[str]


def parse_line(line: Any, position: int) -> ParsedLine:
    """Return the answers of a line; ``position`` is that of the token that answers."""
    if not isinstance(line, dict | list):
        raise InvalidInput(
            f"{quoted(line)} is not a response; it must be a mapping or a list, such as "
            "response.model_dump() returns"
        )
    try:
        responses, own_fields = _unwrapped(line)
        parsed = [_answers_of(response, position) for response in responses]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        problem = f"the response is incomplete or damaged: {type(error).__name__}: {error}"
        raise InvalidInput(problem) from None
    styles = list(dict.fromkeys(style for style, _ in parsed))
    answers = [answer for _, response_answers in parsed for answer in response_answers]
    if len(styles) > 1:
        raise InvalidInput(f"the responses are of different kinds: {' and '.join(styles)}")
    if not answers:
        raise InvalidInput("the response has no answer")
    fields = line if isinstance(line, dict) else {}
    return ParsedLine(styles[0], answers, fields, own_fields)


def _unwrapped(line: Any) -> tuple[list[Any], frozenset[str]]:
    """Return the response of a line, or several, and which fields of the line are its own."""
    if isinstance(line, list):
        return [line], frozenset()
    if line.get("error") is not None:
        raise InvalidInput(
            f"the request has failed: {quoted(line['error'], 200)}; repeat it, or remove the row"
        )
    if "response" in line:
        return [_body(line["response"])], frozenset()
    if "responses" in line:
        return list(map(_body, line["responses"])), frozenset()
    return [line], frozenset({"labels"} if "scores" in line else {"id"})


def _body(response: Any) -> Any:
    """Return the response itself, which a batch wraps with the status of its request."""
    if response is None:
        raise InvalidInput("there is no response; repeat the request, or remove the row")
    if isinstance(response, dict) and "body" in response:
        if response.get("status_code", 200) != 200:
            raise InvalidInput(
                f"the request has failed with status {response['status_code']}: "
                f"{quoted(response['body'], 200)}; repeat it, or remove the row"
            )
        return response["body"]
    return response


def _answers_of(response: Any, position: int) -> tuple[str, list[Answer]]:
    """Return the style of a response, and its answers."""
    if isinstance(response, list):
        return SCORES, [_scores(response)]
    if "scores" in response:
        return SCORES, _scores_of_members(response)
    if "choices" in response:
        for choice in response["choices"]:
            _check_not_refused(choice.get("message") or {})
        logprobs = [_required(choice.get("logprobs")) for choice in response["choices"]]
        if all(choice.get("content") is not None for choice in logprobs):
            generated = [choice["content"] for choice in logprobs]
            return "chat completion", _answers(generated, position, _reported_tokens)
        generated = [choice.get("top_logprobs") for choice in logprobs]
        return "completion", _answers(generated, position, Mapping.items)
    if "outputs" in response:
        generated = [output.get("logprobs") for output in response["outputs"]]
        return "RequestOutput of vLLM", _answers(generated, position, _tokens_by_id)
    if "output" in response:
        parts = [part["content"][0] for part in response["output"] if part["type"] == "message"]
        for part in parts:
            _check_not_refused(part)
        generated = [part.get("logprobs") for part in parts]
        return "response", _answers(generated, position, _reported_tokens)
    if "label" in response and "score" in response:
        raise InvalidInput(
            "it has the best label alone; call the pipeline with top_k=None for the scores of all"
        )
    raise InvalidInput(
        f"it has {quoted_names(response)}, which is no known response: there must be 'choices' "
        "(OpenAI, vLLM), 'output' (OpenAI), 'outputs' (vLLM) or 'scores', or one of these in "
        "'response'"
    )


# -- tokens ----------------------------------------------------------------------------------------


def _check_not_refused(message: Mapping[str, Any]) -> None:
    if message.get("refusal"):
        raise InvalidInput(
            f"the model refused to answer: {quoted(message['refusal'], 200)}; ask again, or remove "
            "the row"
        )


def _required(logprobs: Any) -> Any:
    if not logprobs:
        raise InvalidInput(
            "there are no log-probabilities; request them: logprobs=True and top_logprobs=20 "
            "(chat), logprobs=5 (completions), SamplingParams(logprobs=20) (vLLM), "
            'include=["message.output_text.logprobs"] and top_logprobs=20 (responses)'
        )
    return logprobs


def _answers(
    generated: Iterable[Any], position: int, tokens: Callable[[Any], Iterable[tuple[str, float]]]
) -> list[Answer]:
    """Return answers from what is reported for each generated token.

    ``tokens`` returns the tokens at a position with their log-probabilities.
    """
    answers = []
    for positions in map(_required, generated):
        if not -len(positions) <= position < len(positions):
            raise InvalidInput(f"it has {len(positions)} tokens, and none at position {position}")
        answers.append(_probabilities(tokens(positions[position])))
    return answers


def _reported_tokens(entry: Mapping[str, Any]) -> list[tuple[str, float]]:
    listed = _required(entry["top_logprobs"])
    # vLLM may list the sampled token twice (its issue 36660); others of one text differ in id
    tokens = [token for i, token in enumerate(listed) if token not in listed[:i]]
    pairs = [(token["token"], token["logprob"]) for token in tokens]
    if entry["token"] not in dict(pairs):  # the sampled token may be none of the most likely
        pairs.append((entry["token"], entry["logprob"]))
    return pairs


def _tokens_by_id(entry: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return tokens of vLLM, by their ids if they were not decoded."""
    pairs = []
    for token_id, token in entry.items():
        text = token.get("decoded_token")
        pairs.append((str(token_id) if text is None else text, token["logprob"]))
    return pairs


def _probabilities(tokens: Iterable[tuple[str, float]]) -> Answer:
    """Return the probability of each text, which is the sum over the tokens that have it."""
    probs: dict[str, float] = {}
    for token, logprob in tokens:
        if not _is_number(logprob) or not logprob <= TOLERANCE:
            raise InvalidInput(
                f"the log-probability of {quoted(token)} is {quoted(logprob)}; it must be a number "
                "of at most 0"
            )
        if logprob > _UNREPORTED:
            text = _text(token)
            probs[text] = probs.get(text, 0.0) + math.exp(logprob)
    return list(probs.items())


# -- scores ----------------------------------------------------------------------------------------


def _scores_of_members(response: Mapping[str, Any]) -> list[Answer]:
    """Return scores beside an id, of one member or of several, or of zero-shot classification."""
    scores = response["scores"]
    if isinstance(response.get("labels"), list) and all(map(_is_number, scores)):
        pairs = zip(response["labels"], scores, strict=True)
        return [_scores([{"label": label, "score": score} for label, score in pairs])]
    are_members = bool(scores) and all(isinstance(member, list) for member in scores)
    return list(map(_scores, scores)) if are_members else [_scores(scores)]


def _scores(labels: list[Any]) -> Answer:
    if any(isinstance(label, list) for label in labels):
        raise InvalidInput(
            "it has several lists, which may be texts or members; write a line for each text, and "
            'members as {"scores": [[…], […]]}'
        )
    for i, label in enumerate(labels):
        if not (isinstance(label, dict) and {"label", "score"} <= label.keys()):
            raise InvalidInput(
                f"it is a list, whose item {i} is {quoted(label)} and no label with its score; if "
                "items are responses, write each on a line of its own, or pass the list itself, "
                "as in read_logprobs(json.load(file), labels)"
            )
        if not (_is_number(label["score"]) and 0 <= label["score"] <= 1 + TOLERANCE):
            raise InvalidInput(
                f"the score of {quoted(label['label'])} is {quoted(label['score'])}; it must be a "
                "probability"
            )
    return [(_text(label["label"]), float(label["score"])) for label in labels]


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _text(token: Any) -> str:
    if not isinstance(token, str):
        raise InvalidInput(f"{quoted(token)} is in the place of a token; it must be text")
    return token
