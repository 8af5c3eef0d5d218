"""A notebook that is run, and a page that holds a widget as a notebook's front end does."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

MIME = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"

_FRONT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>notebook</title><link rel="icon" href="data:,">
<style>body {{ background: {ground}; margin: 0 }}</style><style>{css}</style></head>
<body><main id="cell"></main>
<script type="application/json" id="saved">{saved}</script>
<script type="module">
{esm}
</script></body></html>
"""

_MODEL = """
const saved = JSON.parse(document.getElementById("saved").textContent);
const listeners = new Map();
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
for (const { path, data } of saved.buffers) saved.state[path[0]] = bytes(data);
const fire = (name, ...told) => { for (const run of listeners.get(name) ?? []) run(...told); };
globalThis.model = {
  saves: 0,
  get: (name) => saved.state[name],
  set(name, value) { saved.state[name] = value; fire(`change:${name}`); },
  save_changes() { this.saves += 1; },
  on: (name, run) => listeners.set(name, [...(listeners.get(name) ?? []), run]),
  off: (name, run) => listeners.set(name, (listeners.get(name) ?? []).filter((one) => one !== run)),
  async send(content) {
    const { told, buffers } = await globalThis.toKernel(content);
    fire("msg:custom", told, buffers.map(bytes));
  },
  listening: () => [...listeners.values()].flat().length,
};
globalThis.end = await shown.render({ model, el: document.getElementById("cell") });
globalThis.ready = true;
"""


def run_notebook(*cells: str) -> Any:
    """The notebook of these cells, run in a kernel, with its widgets' state."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(book, timeout=300, kernel_name="python3", store_widget_state=True)
    with ThreadPoolExecutor(1) as pool:  # the browser has an event loop in this thread
        pool.submit(client.execute).result()
    return book


def saved_widget(book: Any, cell: int) -> dict[str, Any]:
    """The saved state (and buffers) of the widget that a cell shows."""
    (output,) = book.cells[cell].outputs
    id = output["data"][VIEW]["model_id"]
    return book.metadata.widgets[MIME]["state"][id]


def front_end(saved: dict[str, Any], folder: Path, ground: str = "white") -> Path:
    """A page that renders a saved widget, as a notebook's front end does."""
    state = saved["state"]
    esm = state["_esm"].replace("export default", "const shown =") + _MODEL
    given = {"state": {k: v for k, v in state.items() if k[0] != "_"}, "buffers": saved["buffers"]}
    text = json.dumps(given).replace("<", "\\u003c")
    path = folder / "front.html"
    page = _FRONT.format(ground=ground, css=state["_css"], saved=text, esm=esm)
    path.write_text(page, encoding="utf-8")
    return path


def saved_of(widget: Any) -> dict[str, Any]:
    """The state of a widget of this process, as a notebook would save it."""
    state = dict(widget.get_state())
    data = base64.b64encode(state.pop("chunks")).decode()
    state.pop("layout", None)
    return {
        "state": state,
        "buffers": [{"encoding": "base64", "path": ["chunks"], "data": data}],
    }


class Kernel:
    """A widget's kernel side: what the front end sends reaches the widget, and its answers come back."""

    def __init__(self, widget: Any) -> None:
        self.widget = widget
        self.asked: list[dict[str, Any]] = []

    def __call__(self, content: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(content)
        answers: list[tuple[Any, list[bytes]]] = []
        plain = self.widget.send
        self.widget.send = lambda told, buffers=(): answers.append((told, list(buffers)))
        try:
            message = {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
            self.widget._handle_msg(message)
        finally:
            self.widget.send = plain
        ((told, buffers),) = answers
        return {"told": told, "buffers": [base64.b64encode(part).decode() for part in buffers]}
