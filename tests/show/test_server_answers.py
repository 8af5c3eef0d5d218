"""What a server answers: what `look`, `ablate` and the losses say, and one line for what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from server_help import CONTEXT, TEXT, Asked, small_model

import headwise as hw
from headwise.hub.load import Model
from headwise.show.page.scene import Scene
from headwise.show.server import answers
from headwise.show.server.saying import GONE
from headwise.show.server.settings import offered
from headwise.show.server.shelf import Kept, Shelf, size_of


@pytest.fixture(scope="module")
def model(models: Path) -> Model:
    return hw.load(models / "small")


def test_a_look_is_the_record_of_look(asked: Asked, model: Model) -> None:
    lines = asked.lines("look", model="small", text=TEXT)
    assert lines[0] == {"doing": "loading small"} or lines[0]["done"] == 1
    found = lines[-1]["result"]
    record = hw.look(model, TEXT)
    assert found["index"]["text"] == TEXT
    assert list(found["index"]["heads"]) == [str(id) for id in record.heads()]
    chunk = asked.http.get(f"/api/chunk/{found['scene']}/1.2")
    assert chunk.content == answers.Scene(record).chunk("1.2")
    rows = asked.http.get(f"/api/rows/{found['scene']}/1.2?from=2&to=5")
    assert rows.content == answers.Scene(record).rows("1.2", 2, 5)
    assert asked.http.get(f"/api/scene/{found['scene']}").json() == found["index"]


def test_turning_heads_down_is_ablate(asked: Asked, model: Model) -> None:
    scene = asked.result("look", model="small", text=TEXT)["scene"]
    factors = {"0.1": 0.0, "1.4": 0.5}
    found = asked.result("cut", scene=scene, heads=factors, at=3)
    ids = {"input_ids": torch.tensor([model.tokenizer.encode(TEXT).ids])}
    before = hw.loss(model, ids["input_ids"]).mean
    plain = _logits(model, ids)
    with hw.ablate(model, factors):
        after = hw.loss(model, ids["input_ids"]).mean
        changed = _logits(model, ids)
    assert found["loss"]["before"] == pytest.approx(before, abs=1e-4)
    assert found["loss"]["after"] == pytest.approx(after, abs=1e-4)
    assert found["loss"]["change"] == pytest.approx(after - before, abs=1e-4)
    by_place = {one["position"]: one for one in found["tokens"]}
    for place, one in by_place.items():
        p, q = (x[place].log_softmax(-1) for x in (plain, changed))
        assert one["divergence"] == pytest.approx(float((p.exp() * (p - q)).sum()), abs=1e-4)
        assert one["before"][0][1:] == pytest.approx(
            [float(x.exp()[p.argmax()]) for x in (p, q)], abs=1e-4
        )
        assert one["after"][0][2] == pytest.approx(float(q.exp().max()), abs=1e-4)
    assert 3 in by_place
    assert len(TEXT) - 1 in by_place
    assert max(found["divergences"]) > 1e-4
    again = asked.result("cut", scene=scene, heads={})
    assert again["loss"]["change"] == 0
    assert max(again["divergences"]) == 0


def _logits(model: Model, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        output = model.outputs({**inputs, "attention_mask": torch.ones_like(inputs["input_ids"])})
    return getattr(output, "logits", output)[0].float()


def test_a_look_without_heads_is_look_under_ablate(asked: Asked, model: Model) -> None:
    found = asked.result("look", model="small", text=TEXT, without={"0.1": 0, "0.2": 0.5})
    assert found["index"]["note"] == "without 0.1; with 0.2 at 0.5"
    assert found["index"]["off"] == ["0.1"]
    with hw.ablate(model, {"0.1": 0.0, "0.2": 0.5}):
        record = hw.look(model, TEXT)
    chunk = asked.http.get(f"/api/chunk/{found['scene']}/1.0").content
    assert chunk == answers.Scene(record).chunk("1.0")
    assert found["index"]["opens"] == answers.Scene(record).opens
    assert chunk != answers.Scene(hw.look(model, TEXT)).chunk("1.0")


def test_a_text_as_long_as_the_context_is_read_and_one_token_more_is_refused(asked: Asked) -> None:
    found = asked.result("look", model="small", text="a" * CONTEXT)
    assert len(found["index"]["sides"][0]["tokens"]) == CONTEXT
    assert (
        asked.http.get(f"/api/rows/{found['scene']}/0.0?from=1490&to={CONTEXT}").status_code == 200
    )
    line = asked.error("look", model="small", text="a" * (CONTEXT + 1))
    assert f"{CONTEXT + 1} tokens" in line


@pytest.mark.parametrize(
    "name",
    [
        "../small", "small/../small", "./small", "/etc", "%2e%2e/small", "..%2fsmall", "small/", "small\0",
        "file:///etc/passwd", "~", "", None, 3, ["small"], "out", "hub-owner/some-model", "C:\\small",
    ],
)  # fmt: skip
def test_a_model_is_one_of_the_list_and_no_path(models: Path, tmp_path: Path, name: object) -> None:
    small_model(tmp_path / "elsewhere" / "out")
    (models / "out").is_symlink() or (models / "out").symlink_to(tmp_path / "elsewhere" / "out")
    try:
        answer = Asked(models).http.post("/api/look", json={"model": name, "text": TEXT})
    finally:
        (models / "out").unlink()
    assert answer.status_code == 404
    assert "small" in answer.json()["error"]
    assert str(models) not in answer.text


def test_a_folder_that_becomes_a_link_out_is_not_followed(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    small_model(folder / "one")
    asked = Asked(folder)
    (folder / "one").rename(tmp_path / "moved")
    (folder / "one").symlink_to(tmp_path / "moved")
    assert "leads out" in asked.error("look", model="one", text=TEXT)


def test_what_is_offered_has_names_of_its_own(models: Path) -> None:
    small_model(models / "minilm")
    try:
        found, _ = offered(["gpt2"], models)
    finally:
        for part in (models / "minilm").iterdir():
            part.unlink()
        (models / "minilm").rmdir()
    assert next(iter(found)) == "gpt2"
    assert found["minilm"] == "minilm"
    assert found[f"{models.name}/minilm"] == models / "minilm"
    assert "whisper-tiny-en" not in found


def test_a_body_that_is_too_long_is_not_read(models: Path) -> None:
    asked, read = Asked(models), 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 100_000
            yield b"a" * 100_000

    told = asked.http.post(
        "/api/look", content=b"a" * 1_000_001, headers={"content-type": "application/json"}
    )
    assert told.status_code == 413
    assert "1 MB" in told.json()["error"]
    answer = asked.http.post(
        "/api/look", content=endless(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413
    assert asked.result("look", model="small", text=TEXT)


def test_a_link_into_a_folder_of_a_like_name_leads_out(tmp_path: Path) -> None:
    small_model(tmp_path / "models" / "one")
    small_model(tmp_path / "models-evil" / "two")
    (tmp_path / "models" / "two").symlink_to(tmp_path / "models-evil" / "two")
    found, _ = offered([], tmp_path / "models")
    assert "one" in found
    assert "two" not in found


def test_a_model_goes_by_the_name_it_is_asked_for(models: Path, tmp_path: Path) -> None:
    asked = Asked(models)
    index = asked.result("look", model="small", text=TEXT)["index"]
    assert (index["model"], index["title"]) == ("small", f"small · {TEXT}")
    assert index["source"] == str(models / "small")  # what cuts it for good
    broken = small_model(tmp_path / "broken" / "one")
    (broken / "model.safetensors").write_bytes(b"no weights")
    line = Asked(tmp_path / "broken").error("look", model="one", text=TEXT)
    assert str(tmp_path) not in line


def test_what_a_scene_holds_is_counted_and_let_go(models: Path) -> None:
    shelf = Shelf(10**12)
    record = hw.look(hw.load(models / "small"), TEXT * 20)
    kepts = [Kept(Scene(record, least=0.01), "small", TEXT, None) for _ in range(3)]
    before = [kept.size for kept in kepts]
    assert before[0] > size_of(record) + len(json.dumps(kepts[0].index))
    ids = [shelf.add(kept) for kept in kepts]
    for kept, size in zip(kepts, before, strict=True):
        kept.scene.chunk("0.1")
        heads = kept.size - size
        assert heads >= 6 * 3 * len(record.tokens)
        kept.scene.chunk("mean/0")
        assert kept.size - size > heads
    shelf.get(ids[0])
    shelf.get(ids[2])
    assert [kept.size > size for kept, size in zip(kepts, before, strict=True)] == [
        True,
        False,
        True,
    ]
    assert kepts[1].scene.chunk("0.1") == kepts[0].scene.chunk("0.1")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000], ids=lambda b: str(b[:5])
)
def test_what_is_no_object_is_refused(asked: Asked, body: bytes) -> None:
    answer = asked.http.post(
        "/api/look", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_what_is_wrong_is_told_in_one_line(asked: Asked) -> None:
    scene = asked.result("look", model="small", text=TEXT)["scene"]
    assert "empty" in asked.error("look", model="small", text="  ")
    assert "a text" in asked.error("look", model="small", text=["a"])
    assert "surrogate" in asked.error("look", model="small", text="a\ud800")
    assert "no other" in asked.error("look", model="small", text="a", target="b")
    assert "9.9" in asked.error("cut", scene=scene, heads={"9.9": 0})
    assert "head id" in asked.error("cut", scene=scene, heads={"x": 0})
    for factor in (2, -1, "0", True, None):
        assert "from 0 to 1" in asked.error("cut", scene=scene, heads={"0.0": factor})
    assert "object" in asked.error("cut", scene=scene, heads=[])
    for without in ([["0.0"]], [3], [None], "0.0", 3):
        assert "without must be" in asked.error("look", model="small", text="a", without=without)
    assert "let go" in asked.error("cut", scene="unknown", heads={})
    assert asked.http.post("/api/nothing", json={}).status_code == 404
    for asks in ("?from=0", "?from=-1&to=2", "?from=0&to=99999", "?from=3&to=3", "?from=a&to=b"):
        assert asked.http.get(f"/api/rows/{scene}/0.0{asks}").status_code == 400
    assert "layers are" in asked.http.get(f"/api/chunk/{scene}/9.9").json()["error"]


def test_what_fails_is_told_in_the_terminal_alone(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a secret of the machine")

    monkeypatch.setattr(answers, "look", broken)
    assert (
        asked.error("look", model="small", text=TEXT)
        == "something failed here; the terminal says what"
    )
    assert "a secret of the machine" in capfd.readouterr().err


def test_scenes_are_let_go_when_they_hold_too_much(models: Path) -> None:
    asked = Asked(models, kept_bytes=1)
    first = asked.result("look", model="small", text=TEXT)["scene"]
    assert asked.http.get(f"/api/chunk/{first}/0.0").status_code == 200
    second = asked.result("look", model="small", text=TEXT)["scene"]
    for place in (f"chunk/{first}/0.0", f"scene/{first}", f"rows/{first}/0.0?from=0&to=1"):
        gone = asked.http.get(f"/api/{place}")  # no failure, which a browser would put in red
        assert (gone.status_code, gone.json()["error"]) == (200, GONE)
    assert asked.error("cut", scene=first, heads={}) == GONE
    assert asked.http.get(f"/api/chunk/{second}/0.0").status_code == 200
    assert len({first, second}) == 2
    assert min(map(len, (first, second))) >= 20


def test_an_index_says_what_can_be_asked(asked: Asked) -> None:
    live = asked.http.get("/api/index").json()["live"]
    assert live["model"] == "small"
    assert {"small", "smollm2"} <= set(live["models"])
    assert live["look"]
    assert live["cut"]
    assert json.dumps(live)


def test_what_is_measured_of_a_view_is_so_with_its_heads_turned_down(
    asked: Asked, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(model: Model, record: hw.Record, *, progress: object) -> dict[str, object]:
        return {"pattern": hw.look(model, record.text).weights("1.0").tolist()}

    monkeypatch.setattr(answers, "TOLD", {"fires": told})
    plain = asked.result("look", model="small", text=TEXT)["scene"]
    down = asked.result("look", model="small", text=TEXT, without=["0.1"])["scene"]
    found = [asked.result("fires", scene=scene)["pattern"] for scene in (plain, down)]
    assert found[0] == hw.look(model, TEXT).weights("1.0").tolist()
    with hw.ablate(model, "0.1"):
        assert found[1] == hw.look(model, TEXT).weights("1.0").tolist()
    assert found[0] != found[1]


def test_too_little_memory_is_told(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate 3 TiB")

    monkeypatch.setattr(answers, "look", full)
    assert "memory" in asked.error("look", model="small", text=TEXT)
