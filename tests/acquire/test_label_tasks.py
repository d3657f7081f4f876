"""Rows to label in the files of labelling tools: read by Argilla itself, or as documented.

Label Studio: "JSON format for pre-annotations", labelstud.io/guide/predictions, and the checks of
``LabelInterface.validate_prediction`` in label-studio-sdk 2.1.2. Argilla: ``records.from_json`` of
the package, and the names that its server accepts. FiftyOne:
"FiftyOneImageClassificationDataset", docs.voxel51.com/user_guide/import_datasets.html, and its
importer in fiftyone 1.22.1.
"""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

import numpy as np
import pytest

import scorewise as sw
from scorewise.acquire import check_label_tasks, label_tools, write_label_tasks
from support import members

NAMES = ("cat", "dog", "owl")
PROBS = members(6, 4, 3, seed=2)
IDS = [f"row-{i}" for i in range(6)]
TEXTS = [f'text {i}, "quoted"\nü' for i in range(6)]
IMAGES = [f"{os.sep}images{os.sep}{i}.jpg" for i in range(6)]
MEASURES = ("rank", "score", "measure", "total", "aleatoric", "epistemic")


def written(path: Path, tool: str, **options: Any) -> Any:
    """What is in the file for a tool."""
    defaults = {"data": TEXTS, "field": "text", "class_names": NAMES}
    write_label_tasks(path, tool, PROBS, IDS, **(defaults | options))
    return json.loads(path.read_text())


def expected_measures(rule: str = "zero-one") -> list[dict[str, Any]]:
    d = sw.decompose(PROBS, rule)
    return [
        dict(zip(MEASURES, (i + 1, e, f"epistemic_{rule}", t, a, e), strict=True))
        for i, (t, a, e) in enumerate(zip(d.total, d.aleatoric, d.epistemic, strict=True))
    ]


MEAN = PROBS.mean(axis=1)
LABELS = [NAMES[k] for k in MEAN.argmax(axis=-1)]


def test_label_studio_tasks_have_the_data_and_a_choice(tmp_path: Path):
    tasks = written(tmp_path / "tasks.json", "label-studio")
    measures = expected_measures()
    assert len(tasks) == 6
    for i, task in enumerate(tasks):
        assert task.keys() == {"data", "predictions"}
        assert task["data"] == {"text": TEXTS[i], "row_id": IDS[i], **measures[i]}
        (prediction,) = task["predictions"]
        assert prediction.keys() == {"model_version", "score", "result"}
        assert prediction["model_version"] == "scorewise"
        assert 0 <= prediction["score"] <= 1
        assert prediction["score"] == pytest.approx(MEAN[i].max(), rel=1e-12)
        assert prediction["result"] == [
            {
                "from_name": "sentiment",
                "to_name": "text",
                "type": "choices",
                "value": {"choices": [LABELS[i]]},
            }
        ]


@pytest.mark.parametrize(
    ("names", "tags"),
    [
        ({"field": "text"}, ("sentiment", "text")),
        ({"field": "image"}, ("choice", "image")),
        ({"field": "text", "question": "animal"}, ("animal", "text")),
        ({"field": "photo", "question": "animal"}, ("animal", "photo")),
    ],
)
def test_label_studio_tags_are_those_of_its_templates_or_the_users(names, tags, tmp_path: Path):
    task, *_ = written(tmp_path / "tasks.json", "label-studio", **names)
    (region,) = task["predictions"][0]["result"]
    assert (region["from_name"], region["to_name"]) == tags
    assert task["data"][tags[1]] == TEXTS[0]


@pytest.mark.parametrize(
    ("data_tag", "question"),
    [
        ('<Text name="text" value="$text"/>', "sentiment"),
        ('<Image name="image" value="$image"/>', "choice"),
    ],
)
def test_label_studio_tasks_fit_the_configuration_of_its_templates(
    data_tag, question, tmp_path: Path
):
    choices = "".join(f'<Choice value="{name}"/>' for name in NAMES)
    field = ElementTree.fromstring(data_tag).attrib["name"]
    question_tag = f'<Choices name="{question}" toName="{field}">{choices}</Choices>'
    configuration = ElementTree.fromstring(f"<View>{data_tag}{question_tag}</View>")
    tags = {tag.attrib["name"]: tag for tag in configuration}
    for task in written(tmp_path / "tasks.json", "label-studio", field=field):
        assert tags[field].attrib["value"].removeprefix("$") in task["data"]
        (region,) = task["predictions"][0]["result"]
        control = tags[region["from_name"]]
        assert control.tag.lower() == region["type"]
        assert control.attrib["toName"] == region["to_name"]
        (choice,) = region["value"][region["type"]]
        assert choice in {tag.attrib["value"] for tag in control}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pydantic, when it is imported
def test_argilla_itself_sends_the_records_to_its_server(tmp_path: Path):
    import argilla as rg
    import httpx

    sent = []

    def serve(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/records/bulk"):
            return httpx.Response(200, json={"username": "annotator", "role": "owner"})
        items = json.loads(request.content)["items"]
        sent.extend(items)
        stored = [{**item, "id": str(uuid4()), "suggestions": []} for item in items]
        return httpx.Response(200, json={"items": stored, "updated_item_ids": []})

    server = {"all://": httpx.MockTransport(serve)}
    client = rg.Argilla(api_url="http://localhost", api_key="key", mounts=server)
    settings = rg.Settings(  # those of docs/labels.md
        fields=[rg.TextField("text")],
        questions=[rg.LabelQuestion("label", labels=[*NAMES])],
        metadata=[
            rg.IntegerMetadataProperty("rank"),
            rg.TermsMetadataProperty("measure"),
            *map(rg.FloatMetadataProperty, ("score", "total", "aleatoric", "epistemic")),
        ],
    )
    dataset = rg.Dataset("pool", settings=settings, client=client)
    dataset.id = uuid4()

    records = written(tmp_path / "records.json", "argilla")
    dataset.records.from_json(tmp_path / "records.json")
    assert [item["external_id"] for item in sent] == IDS
    for item, record in zip(sent, records, strict=True):
        assert item["fields"] == record["fields"]
        assert item["metadata"] == record["metadata"]
        (suggestion,) = item["suggestions"]
        expected = record["suggestions"][suggestion["question_name"]]
        assert {name: suggestion[name] for name in expected} == expected
        again = rg.Record.from_dict(record).to_dict()
        assert {name: again[name] for name in record} == record


def test_argilla_records_have_fields_suggestions_and_metadata(tmp_path: Path):
    records = written(tmp_path / "records.json", "argilla", rule="log", model="forest v2")
    measures = expected_measures("log")
    for i, record in enumerate(records):
        assert record == {
            "id": IDS[i],
            "fields": {"text": TEXTS[i]},
            "metadata": measures[i],
            "suggestions": {
                "label": {
                    "value": LABELS[i],
                    "score": pytest.approx(MEAN[i].max()),
                    "agent": "forest v2",
                }
            },
        }
        for name in (*record["fields"], *record["metadata"], *record["suggestions"]):
            assert re.fullmatch(r"(?=.*[a-z0-9])[a-z0-9_-]+", name)
    again, *_ = written(tmp_path / "again.json", "argilla", field="comment", question="topic")
    assert [*again["fields"], *again["suggestions"]] == ["comment", "topic"]


def test_fiftyone_labels_are_classes_by_image_with_attributes(tmp_path: Path):
    content = written(tmp_path / "labels.json", "fiftyone", data=IMAGES, field=None)
    assert content.keys() == {"classes", "labels"}
    assert content["classes"] == [*NAMES]
    assert [*content["labels"]] == IMAGES  # absolute paths
    for i, (label, measures) in enumerate(
        zip(content["labels"].values(), expected_measures(), strict=True)
    ):
        assert label == {
            "label": MEAN[i].argmax(),
            "confidence": pytest.approx(MEAN[i].max()),
            "attributes": {"row_id": IDS[i], **measures},
        }


def test_fiftyone_identifies_relative_images_without_their_suffix(tmp_path: Path):
    images = [f"./a/../b/{i}.v2.png" for i in range(6)]
    content = written(tmp_path / "labels.json", "fiftyone", data=images)
    assert [*content["labels"]] == [str(Path(f"b/{i}.v2")) for i in range(6)]


@pytest.mark.parametrize("image", ["https://example.org/1.jpg", "../1.jpg"])
def test_fiftyone_images_must_be_files_that_it_finds(image, tmp_path: Path):
    with pytest.raises(sw.InvalidInput, match="FiftyOne cannot find the image"):
        written(tmp_path / "labels.json", "fiftyone", data=[*IMAGES[:5], image])
    with pytest.raises(sw.InvalidInput, match="two rows have the image 'a/1'"):
        written(tmp_path / "labels.json", "fiftyone", data=[*IMAGES[:4], "a/1.jpg", "a/1.png"])
    assert not list(tmp_path.iterdir())


def test_csv_has_a_column_for_each_of_them(tmp_path: Path):
    path = tmp_path / "tasks.csv"
    write_label_tasks(path, "csv", PROBS, IDS, data=TEXTS, field="text", class_names=NAMES)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == [
        *("rank", "id", "label", "probability", "score", "measure"),
        *("total", "aleatoric", "epistemic", "text"),
    ]
    for i, (row, measures) in enumerate(zip(rows, expected_measures(), strict=True)):
        assert (row["id"], row["label"]) == (IDS[i], LABELS[i])
        assert float(row["probability"]) == pytest.approx(MEAN[i].max())
        assert {name: type(value)(row[name]) for name, value in measures.items()} == measures
        # control characters, such as the end of a line, get an apostrophe: see docs/files.md
        assert row["text"].removeprefix("'") == TEXTS[i]


def test_csv_needs_no_data(tmp_path: Path):
    path = tmp_path / "tasks.csv"
    write_label_tasks(path, "csv", PROBS, np.arange(6))
    lines = path.read_text().splitlines()
    assert lines[0].endswith('"epistemic"')
    assert lines[1].startswith(f'1,0,"{MEAN[0].argmax()}",')  # without names: the class index


def test_scores_are_the_users_with_what_they_are(tmp_path: Path):
    scores = np.linspace(2, 1, 6)
    tasks = written(tmp_path / "a.json", "label-studio", scores=scores, measure="joint_gain_log")
    assert [task["data"]["score"] for task in tasks] == scores.tolist()
    assert {task["data"]["measure"] for task in tasks} == {"joint_gain_log"}


def test_predictions_of_every_kind_are_taken(tmp_path: Path):
    samples = sw.Samples(PROBS, class_names=NAMES)
    kinds = {
        "samples": samples,
        "predictions": sw.io.Predictions(PROBS, class_names=NAMES),
        "dirichlet": sw.Dirichlet(20 * MEAN, class_names=NAMES),
    }
    for name, predictions in kinds.items():
        path = tmp_path / f"{name}.json"
        write_label_tasks(path, "argilla", predictions, IDS, data=TEXTS, field="text")
        records = json.loads(path.read_text())
        assert [record["suggestions"]["label"]["value"] for record in records] == LABELS


def test_a_probability_that_rounding_makes_larger_than_one_is_one(tmp_path: Path):
    path = tmp_path / "tasks.csv"
    write_label_tasks(path, "csv", np.array([[[1 + 1e-7, 0.0]]]), [0])
    assert path.read_text().splitlines()[1].startswith('1,0,"0",1.0,')


@pytest.mark.parametrize("tool", label_tools())
def test_a_file_that_exists_is_not_replaced(tool, tmp_path: Path):
    path = tmp_path / f"tasks.{'csv' if tool == 'csv' else 'json'}"
    path.write_text("labels by people")
    with pytest.raises(sw.InvalidInput, match="exists, and may have labels by now"):
        written(path, tool)
    assert path.read_text() == "labels by people"


@pytest.mark.parametrize(
    ("tool", "options", "message"),
    [
        ("prodigy", {}, "tool must be one of 'argilla', 'csv', 'fiftyone', 'label-studio'"),
        ("csv", {}, r"'tasks.json' must end in .csv, for csv"),
        ("label-studio", {"data": None, "field": None}, "needs what annotators are to see; pass d"),
        ("argilla", {"data": None, "field": None}, "argilla needs what annotators are to see"),
        ("fiftyone", {"data": None, "field": None}, "fiftyone needs what annotators are to see"),
        ("argilla", {"field": None}, 'the data have no name; pass field=…, such as "text"'),
        ("argilla", {"field": "score"}, "'score' is the name of something else in the tasks"),
        ("argilla", {"field": "Text"}, "'Text' cannot be the name of a field of Argilla"),
        ("argilla", {"question": "Is it?"}, "'Is it\\?' cannot be the name of a question"),
        ("label-studio", {"field": "sentence"}, "no template of Label Studio has the tag 'sent"),
        ("fiftyone", {"question": "label"}, "fiftyone has no question; pass question=None"),
        ("fiftyone", {"model": "forest"}, "fiftyone has no model; pass model=None"),
        ("argilla", {"data": TEXTS[:5]}, "there are 5 data for 6 rows"),
        ("argilla", {"scores": [1.0]}, "there are 1 scores for 6 rows"),
        ("argilla", {"data": [*TEXTS[:5], ""]}, r"data\[5\] is ''; it must be a text"),
        ("argilla", {"data": [*TEXTS[:5], 7]}, r"data\[5\] is 7; it must be a text"),
    ],
)
def test_what_a_tool_needs_is_asked_for(tool, options, message, tmp_path: Path):
    with pytest.raises(sw.InvalidInput, match=message):
        written(tmp_path / "tasks.json", tool, **options)
    assert not list(tmp_path.iterdir())


def test_a_field_without_data_and_no_rows_are_refused(tmp_path: Path):
    with pytest.raises(sw.InvalidInput, match="field names data, and there are none"):
        write_label_tasks(tmp_path / "tasks.csv", "csv", PROBS, IDS, field="text")
    with pytest.raises(sw.InvalidInput, match="there are no rows to write"):
        write_label_tasks(tmp_path / "tasks.csv", "csv", PROBS[:0], [])
    with pytest.raises(sw.InvalidInput, match="ids have shape"):
        write_label_tasks(tmp_path / "tasks.csv", "csv", PROBS, IDS[:5])


def test_arguments_can_be_checked_before_there_are_rows(tmp_path: Path):
    check_label_tasks(tmp_path / "tasks.json", "argilla", field="text")
    with pytest.raises(sw.InvalidInput, match="there is no folder"):
        check_label_tasks(tmp_path / "none/tasks.json", "argilla", field="text")
