"""What the page's map costs in a browser: moves from head to head, and of a zoomed view, in headless Chromium.

    python benchmarks/frames.py [page.html ...] [--moves 60]

Pages are those of `headwise look --html`; without any, one of SmolLM2 at 1,024 tokens is made, as in page.py.

A move is a press of an arrow. Its work is what the key's handler and the callbacks of frames take until the new
picture is there; the thread's time counts decoding, style, layout and painting too, as Chromium's TaskDuration has
it, on average. Frames are 16.7 ms apart where none is late. Chromium draws in software. The first picture counts
from the start of the navigation.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice, repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from harness import machine, save

FRAME, FIRST = 16.0, 2000.0  # ms: the bars of a move's work (median), and of the first picture
ABOUT = (
    "# Frames of the page\n\n"
    "Milliseconds in headless Chromium that draws in software, 1280 x 900. Work is what scripts take from the "
    f"press of an arrow to the picture (bar: median <= {FRAME:g}); thread counts decoding, style, layout and "
    f"painting too; first picture from the start of the navigation (bar <= {FIRST:g})."
)
WATCH = """
window.work = 0;
const timed = (run) => function (...given) {
  const start = performance.now();
  try { return run.apply(this, given); } finally { window.work += performance.now() - start; }
};
const frame = window.requestAnimationFrame.bind(window);
window.plainFrame = frame;
window.requestAnimationFrame = (run) => frame(timed(run));
new MutationObserver((_, watching) => {
  if (!document.querySelector(".hw-map canvas[data-shows]")) return;
  frame(() => frame(() => (window.first ??= performance.now())));
  watching.disconnect();
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-shows"] });
"""
MOVES = """async ({ keys, shift, on }) => {
  const target = on ? document.querySelector(on) : document.body, canvas = document.querySelector(".hw-map canvas");
  const next = () => new Promise((done) => window.plainFrame(done));
  const found = { work: [], apart: [], frames: [], until: [] };
  let drawn = 0;
  new MutationObserver(() => drawn++).observe(canvas, { attributes: true, attributeFilter: ["data-shows"] });
  let last = await next();
  for (const key of keys) {
    const before = drawn, start = performance.now();
    window.work = 0;
    const press = { key, shiftKey: shift, bubbles: true, composed: true, cancelable: true };
    target.dispatchEvent(new KeyboardEvent("keydown", press));
    window.work += performance.now() - start;
    let frames = 0;
    do {
      const now = await next();
      found.apart.push(now - last);
      last = now;
      frames++;
      await null;
    } while (drawn === before && frames < 60);
    found.work.push(window.work);
    found.frames.push(frames);
    found.until.push(performance.now() - start);
  }
  return found;
}"""


@dataclass(frozen=True)
class Frames:
    """Moves of one kind on one page, in milliseconds."""

    page: str
    tokens: int
    move: str
    moves: int
    work: float
    work_95: float
    thread: float
    apart: float
    apart_95: float
    until: float
    until_95: float
    first: float


def of(values: Sequence[float], part: float) -> float:
    """The value below which a part of them lies."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def measured(browser: Browser, path: Path, moves: int, hash: str, move: dict[str, Any]) -> Frames:
    """One fresh page, so many moves."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(f"{path.resolve().as_uri()}#{hash}")
    page.wait_for_function("window.first > 0", timeout=60000)
    first, tokens = page.evaluate("window.first"), _tokens(page)
    page.wait_for_timeout(1000)
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    before = _thread(session)
    found = page.evaluate(
        MOVES,
        {"shift": move["shift"], "on": move["on"], "keys": list(islice(move["keys"](page), moves))},
    )
    spent = 1000 * (_thread(session) - before) / moves
    context.close()
    work, apart, until = found["work"], found["apart"], found["until"]
    return Frames(
        *(path.name, tokens, move["says"], moves, median(work), of(work, 0.95), spent),
        *(median(apart), of(apart, 0.95), median(until), of(until, 0.95), first),
    )


def snake(page: Page) -> Iterator[str]:
    """Along each layer to its end, and down to the next one."""
    steps = len(_scene(page)["streams"][0]["layers"][0]["heads"]) - 1
    return cycle([*["ArrowRight"] * steps, "ArrowDown", *["ArrowLeft"] * steps, "ArrowDown"])


def down(_: Page) -> Iterator[str]:
    """Always down."""
    return repeat("ArrowDown")


def _tokens(page: Page) -> int:
    return len(_scene(page)["sides"][0]["tokens"])


def _scene(page: Page) -> Any:
    return json.loads(page.locator("#index").text_content() or "{}")["scenes"][0]


def _thread(session: Any) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def table(rows: Sequence[Frames]) -> list[str]:
    """The rows as Markdown lines."""
    names = "work: median | 95 % | thread: mean | frames apart: median | 95 % | press to picture: median | 95 %"
    lines = [
        f"| tokens | moves | {names} | first picture |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        met = "met" if r.work <= FRAME else "missed"
        soon = "met" if r.first <= FIRST else "missed"
        times = (r.work_95, r.thread, r.apart, r.apart_95, r.until, r.until_95)
        told = " | ".join(f"{time:.1f}" for time in times)
        lines.append(
            f"| {r.tokens:,} | {r.moves} {r.move} | {r.work:.1f} {met} | {told} | {r.first:.0f} {soon} |"
        )
    return lines


def made(path: Path, tokens: int = 1024) -> Path:
    """A page of SmolLM2, where none is at hand."""
    import headwise as hw
    from page import text_of

    model = hw.load("smollm2")
    hw.save_page(hw.look(model, text_of(model, tokens)), path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--moves", type=int, default=60)
    options = parser.parse_args()
    heads = {"keys": snake, "shift": False, "on": None, "says": "head to head"}
    view = {"keys": down, "shift": True, "on": ".hw-map canvas", "says": "down a zoomed view"}
    rows = []
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for path in options.pages or [made(Path(folder) / "page.html")]:
            rows.append(measured(browser, path, options.moves, "head=0.0", heads))
            zoom = "zoom=0,60,0,60"
            rows.append(measured(browser, path, options.moves, zoom, view))
        browser.close()
    save("frames", ABOUT, [asdict(row) for row in rows], table(rows), machine(threads=1))


if __name__ == "__main__":
    main()
