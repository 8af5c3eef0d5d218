"""Who may ask a server: its own page, and with a token others; never a page of another site."""

from __future__ import annotations

from pathlib import Path

import pytest
from server_help import HOST, TEXT, Asked

TOKEN = "the-token-that-was-printed"
FOREIGN = [
    {"origin": "http://evil.example"},
    {"origin": "http://localhost:8643"},
    {"origin": "null"},
    {"origin": "http://["},
    {"origin": "http://evil-localhost:8642"},
    {"origin": "http://evil.example/?localhost:8642"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"host": "evil.example:8642"},
    {"host": "localhost.evil.example"},
    {"host": "192.168.1.5:8642"},
    {"host": ""},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_another_site_is_refused(asked: Asked, headers: dict[str, str]) -> None:
    body = {"model": "small", "text": TEXT}
    answers = [
        asked.http.post("/api/look", json=body, headers=headers),
        asked.http.get("/api/index", headers=headers),
        asked.http.get("/api/chunk/x/0.0", headers=headers),
        asked.http.get("/api/rows/x/0.0?from=0&to=1", headers=headers),
        asked.http.get("/api/scene/x", headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [403] * 5
    assert all(
        "headwise serve" in a.json()["error"] or "address" in a.json()["error"] for a in answers
    )


@pytest.mark.parametrize("host", ["localhost:8642", "127.0.0.1:9000", "[::1]:8642", "localhost"])
def test_its_own_page_may_ask_by_any_name_of_this_machine(asked: Asked, host: str) -> None:
    own = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert asked.http.get("/api/index", headers=own).status_code == 200
    assert asked.http.get("/", headers={"host": host}).status_code == 200


def test_no_answer_lets_another_site_read_it(asked: Asked) -> None:
    preflight = asked.http.options(
        "/api/look",
        headers={"origin": "http://evil.example", "access-control-request-method": "POST"},
    )
    assert preflight.status_code == 403
    answers = [
        preflight,
        asked.http.get("/"),
        asked.http.get("/api/index"),
        asked.http.get("/none"),
    ]
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_the_page_says_what_a_browser_may_do_with_it(asked: Asked) -> None:
    first, second = (asked.http.get("/") for _ in range(2))
    policy = dict(
        part.strip().split(" ", 1) for part in first.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["script-src"].startswith("'nonce-")
    assert "unsafe" not in policy["script-src"] + policy["style-src"]
    nonce = policy["script-src"][len("'nonce-") : -1]
    assert first.text.count(f'nonce="{nonce}"') == first.text.count("<script") + first.text.count(
        "<style"
    )
    assert nonce not in second.text
    assert asked.http.get("/", headers={"sec-fetch-dest": "iframe"}).status_code == 403


def test_a_form_of_another_page_is_no_request(asked: Asked) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = asked.http.post("/api/look", content=b"{}", headers={"content-type": kind})
        assert answer.status_code == 415
        assert "application/json" in answer.json()["error"]


def test_others_than_this_machine_need_the_token(models: Path) -> None:
    asked = Asked(models, token=TOKEN)
    far = {"host": "machine.example:8642"}
    assert asked.http.get("/", headers=far).status_code == 403
    for wrong in ("another", TOKEN[:12], TOKEN[:-1], f"{TOKEN}x"):
        assert asked.http.get(f"/?token={wrong}", headers=far).status_code == 403
    assert asked.http.get(f"/?token={TOKEN}", headers=far).status_code == 200
    for given in (
        {},
        {"x-headwise-token": "another"},
        {"x-headwise-token": TOKEN[:-1]},
        {"x-headwise-token": TOKEN[:9]},
        {"x-headwise-token": f"{TOKEN}x"},
        {"x-headwise-token": TOKEN.upper()},
        {"x-headwise-token": ""},
        {b"x-headwise-token": "é".encode()},
    ):
        answer = asked.http.get(f"/api/index?token={TOKEN}", headers=[*far.items(), *given.items()])
        assert answer.status_code == 403
        assert "token" in answer.json()["error"]
    right = {**far, "x-headwise-token": TOKEN}
    assert asked.http.get("/api/index", headers=right).status_code == 200
    foreign = asked.http.get("/api/index", headers={**right, "origin": "http://evil.example"})
    assert foreign.status_code == 403


def test_the_page_holds_no_secret(models: Path) -> None:
    assert (
        "the-token"
        not in Asked(models, token="the-token").http.get(f"{HOST}/?token=the-token").text
    )
