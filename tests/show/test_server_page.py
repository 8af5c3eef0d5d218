"""The served page in a real browser: text, models, heads turned off and a plan, and another site's page refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from server_help import CONTEXT, TEXT, Process, process, site, small_model

import headwise as hw
from browser_help import axe, open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

LOOKED = ".hw-tabs button:visible"
TYPED = '.hw-live [aria-label="Text to look at"]'


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    small_model(folder / "small")
    small_model(folder / "other")
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Process]:
    with process("--models", models, "--model", str(models / "small")) as made:
        yield made


def look(page: Page, text: str, model: str | None = None) -> None:
    """Type a text and look at it."""
    if model is not None:
        page.select_option(".hw-live select", model)
    page.fill(TYPED, text)
    page.press(TYPED, "Enter")
    page.wait_for_function(
        "(text) => document.querySelector('.hw-text')?.textContent === text", arg=text
    )


def numbers(page: Page, kind: str) -> dict[str, float]:
    """The next token's probabilities that the page shows."""
    rows = page.locator(".hw-cut-next tbody tr")
    return {
        str(row.get_attribute("data-token")): float(
            row.locator(f".hw-{kind}").get_attribute("data-value")
        )
        for row in rows.all()
    }


def settled(page: Page, change: str = ".hw-cut-effects:not([aria-busy])") -> None:
    page.wait_for_selector(change)


def test_the_page_looks_by_itself_and_at_what_is_typed(
    browser: Browser, server: Process, shot: Callable[..., Path]
) -> None:
    with open_page(browser, server.address) as page:
        page.wait_for_selector(LOOKED)
        look(page, TEXT, "other")
        assert page.locator(".hw-facts").inner_text().count("12 heads") == 1
        shot(page, "map")
        page.reload()  # what was looked at is there again
        page.wait_for_selector(LOOKED)
        assert page.locator(".hw-scenes option").count() == 2
        assert not axe(page)


def test_while_neurons_are_measured_the_page_says_so(browser: Browser, server: Process) -> None:
    with open_page(browser, server.address) as page:
        held: list[Route] = []
        page.route("**/api/fires", lambda route: held.append(route))
        look(page, TEXT)
        page.click('[data-tab="neurons"]')
        said = page.locator(".hw-neurons")
        said.get_by_text("Measuring what blocks and neurons add").wait_for()
        page.wait_for_function("() => location.hash.includes('neurons')")
        page.locator("[data-head]").nth(2).click()
        assert "made without" not in said.inner_text()
        assert "Measuring" in said.inner_text()
        for route in held:
            route.continue_()
        page.locator(".hw-neurons-table tbody tr").first.wait_for()
        assert "Measuring" not in said.inner_text()


def test_what_flows_and_fires_is_measured(browser: Browser, server: Process) -> None:
    with open_page(browser, server.address) as page:
        page.wait_for_selector(LOOKED)
        look(page, "it sat at it twice")
        page.click('[data-tab="masks"]')
        measure = page.get_by_role("button", name="Measure what flows")
        measure.click()
        page.wait_for_selector(".hw-flow-clean")
        assert measure.count() == 0
        assert "Measured:" in page.locator(".hw-flow-clean").inner_text()
        page.click('[data-tab="neurons"]')  # measured by itself, quicker
        page.get_by_text("attention adds most in layer").wait_for()


HOSTILE = (
    '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">&lt;b&gt;'
)


def test_html_and_script_in_the_text_are_shown_as_text(browser: Browser, server: Process) -> None:
    with open_page(browser, server.address) as page:
        page.wait_for_selector(LOOKED)
        look(page, HOSTILE)
        page.click('[data-tab="cut"]')
        settled(page)
        page.click('[data-cut="0.1"]')
        page.wait_for_selector(".hw-cut-most")
        assert page.title().startswith('<script>document.title="owned"')
        assert page.title().endswith("… - small - headwise")
        assert page.locator(".hw-text").inner_text() == HOSTILE
        assert page.locator("img, .hw-text script, .hw-text b").count() == 0


def test_what_is_refused_is_one_line_and_the_page_goes_on(
    browser: Browser, server: Process
) -> None:
    with open_page(browser, server.address) as page:
        page.wait_for_selector(LOOKED)
        for text, said in (
            ("  ", "empty"),
            ("a" * (CONTEXT + 1), f"{CONTEXT + 1} tokens"),
            ("a" * 1_500_000, "1.5 MB"),
        ):
            page.locator(TYPED).evaluate("(field, text) => { field.value = text; }", text)
            page.press(TYPED, "Enter")
            page.wait_for_function(
                "(said) => document.querySelector('.hw-live .hw-live-error').textContent.includes(said)",
                arg=said,
            )
        look(page, "it is well")
        assert page.locator(".hw-live .hw-live-error").inner_text() == ""


def test_a_long_paste_does_not_get_into_the_field(browser: Browser, server: Process) -> None:
    with open_page(browser, server.address) as page:
        page.wait_for_selector(LOOKED)
        page.evaluate(
            """() => {
                const data = new DataTransfer(), field = document.querySelector(".hw-live textarea");
                data.setData("text/plain", "a".repeat(10_000_000));
                const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
                if (field.dispatchEvent(event)) field.value = data.getData("text/plain");
            }"""
        )
        assert "10.0 MB" in page.locator(".hw-live .hw-live-error").inner_text()
        assert (
            page.input_value(TYPED) == "The animal didn't cross the street because it was too tired"
        )


def picture(page: Page) -> str:
    """The picture of the tab shown, as SVG."""
    page.locator(".hw-export summary").click()
    with page.expect_download() as saved:
        page.locator(".hw-export").get_by_role("button", name="SVG").click()
    page.keyboard.press("Escape")
    return Path(saved.value.path()).read_text("utf-8")


def says(share: float) -> str:
    """A share as the page writes it."""
    return f"{share:.{3 if share < 0.1 else 2}f}".replace("0.", ".", 1)


def test_turning_heads_off_does_what_ablate_does(
    browser: Browser, server: Process, models: Path, tmp_path: Path, shot: Callable[..., Path]
) -> None:
    model = hw.load(models / "small")
    with open_page(browser, server.address) as page:
        page.wait_for_selector(LOOKED)
        look(page, TEXT, "small")
        page.click('[data-tab="cut"]')
        settled(page)
        assert numbers(page, "before") == numbers(page, "after")
        page.click('[data-cut="1.3"]')
        page.click('[data-cut="0.2"]', modifiers=["Shift"])
        page.wait_for_selector(".hw-cut-most")
        settled(page)
        found, plain = numbers(page, "after"), numbers(page, "before")
        wanted = next_of(model, {"1.3": 0.0, "0.2": 0.5})
        assert {t: wanted[t] for t in found} == pytest.approx(found, abs=1e-4)
        assert {t: next_of(model, {})[t] for t in plain} == pytest.approx(plain, abs=1e-4)
        assert max(abs(found[t] - plain[t]) for t in found) > 1e-3
        shot(page, "cut", full_page=True)
        assert not axe(page)
        told = picture(page)
        assert "off: 1.3; turned down: 0.2 to 0.5" in told
        assert f">{says(max(found.values()))}<" in told
        page.keyboard.press("Control+z")
        page.keyboard.press("Control+z")
        page.wait_for_selector("text=All heads are on")
        page.wait_for_function("() => !document.querySelector('.hw-cut-most')")
        settled(page)
        assert numbers(page, "after") == numbers(page, "before")
        page.click("text=Redo")
        page.click('[data-layer="0"]')
        page.wait_for_selector("text=7 heads off")
        with page.expect_download() as saved:
            page.click("text=Save the plan")
        plan = tmp_path / saved.value.suggested_filename
        saved.value.save_as(plan)
        assert page.locator(".hw-cut-command code").inner_text().startswith("headwise prune ")
        page.click("text=All on")
        page.set_input_files(".hw-cut-plan input", plan)
        page.wait_for_selector("text=7 heads off")
    smaller = hw.prune(model, heads=plan, quiet=True)
    left = [str(id) for id in hw.look(smaller, TEXT).heads()]
    assert left == ["1.0", "1.1", "1.2", "1.4", "1.5"]


def next_of(model: hw.Model, factors: dict[str, float]) -> dict[str, float]:
    """What comes after the text, by the model with heads turned down."""
    assert model.tokenizer is not None
    ids = torch.tensor([model.tokenizer.encode(TEXT).ids])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.no_grad():
        if factors:
            with hw.ablate(model, factors):
                output = model.outputs(inputs)
        else:
            output = model.outputs(inputs)
    from headwise.see.neurons.lens import token_name

    row = getattr(output, "logits", output)[0, -1].float().softmax(-1).tolist()
    return {token_name(model.tokenizer, id): p for id, p in enumerate(row)}


def test_a_look_with_heads_off_stands_beside_the_other(browser: Browser, server: Process) -> None:
    with open_page(browser, server.address) as page:
        page.wait_for_selector(LOOKED)
        look(page, TEXT, "small")
        page.click('[data-tab="cut"]')
        page.click('[data-cut="0.2"]')
        page.click("text=Look with these heads off")
        page.wait_for_selector(".hw-compared-map")
        texts = [page.get_by_label(f"Text of {letter}") for letter in "AB"]
        chosen = [one.locator("option:checked").inner_text() for one in texts]
        assert "without" not in chosen[0]
        assert "without 0.2" in chosen[1]
        assert [page.get_by_label(f"Head of {x}").input_value() for x in "AB"] == ["0.2", "0.2"]


FOREIGN = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script>
window.told = (async () => {
  const body = JSON.stringify({ model: "small", text: "a" }), told = {}, to = "ADDRESS";
  const kind = { "Content-Type": "application/json" };
  const tries = {
    json: () => fetch(`${to}api/look`, { method: "POST", body, headers: kind }),
    plain: () => fetch(`${to}api/look`, { method: "POST", body, mode: "no-cors" }),
    get: () => fetch(`${to}api/index`),
  };
  for (const [name, attempt] of Object.entries(tries))
    told[name] = await attempt().then((answer) => answer.type, () => "refused");
  const frame = document.createElement("iframe");
  frame.src = to;
  await new Promise((done) => { frame.onload = done; document.body.append(frame); });
  try { told.frame = frame.contentDocument?.body.innerText ?? "closed"; } catch { told.frame = "closed"; }
  return told;
})();
</script><body><form method="post" enctype="text/plain" action="ADDRESSapi/look">
<input name='{"model":"small","text":"a' value='"}'></form>"""


def test_another_sites_page_is_refused(browser: Browser, server: Process, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(FOREIGN.replace("ADDRESS", server.address), "utf-8")
    with site(tmp_path) as address:
        for place in (f"{address}/index.html", (tmp_path / "index.html").as_uri()):
            context = browser.new_context()
            try:
                _try_from(context.new_page(), place, server.address)
            finally:
                context.close()


def _try_from(page: Page, place: str, address: str) -> None:
    """What a page at another place may do with the server: nothing."""
    answers: list[tuple[str, int]] = []
    page.on("response", lambda answer: answers.append((answer.url, answer.status)))
    page.goto(place)
    told = page.evaluate("() => window.told")
    assert told.pop("plain") in ("opaque", "refused")
    assert told == {"json": "refused", "get": "refused", "frame": "closed"}
    with page.expect_navigation():
        page.evaluate("() => document.querySelector('form').submit()")
    assert "another site" in page.inner_text("body")
    asked = [status for url, status in answers if url.startswith(address)]
    assert asked
    assert set(asked) == {403}


@pytest.mark.models
def test_a_trained_model_is_looked_at_and_cut(browser: Browser, shot: Callable[..., Path]) -> None:
    text = "When Mary and John went to the store, John gave a drink to"
    with process("--model", "smollm2") as made, open_page(browser, made.address) as page:
        page.wait_for_selector(LOOKED, timeout=60000)
        look(page, text)
        page.click('[data-tab="cut"]')
        settled(page)
        plain = numbers(page, "before")
        assert max(plain, key=plain.__getitem__) == "Mary"
        page.click('[data-layer="17"]')
        page.wait_for_selector(".hw-cut-most")
        settled(page)
        found = numbers(page, "after")
        shot(page, "smollm2", full_page=True)
    model = hw.load("smollm2")
    assert model.tokenizer is not None
    ids = torch.tensor([model.tokenizer.encode(text).ids])
    with torch.no_grad(), hw.ablate(model, "17.*"):
        output = model.outputs({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    row = getattr(output, "logits", output)[0, -1].float().softmax(-1)
    mary = model.tokenizer.encode(text + " Mary").ids[-1]
    assert found["Mary"] == pytest.approx(float(row[mary]), abs=1e-4)
