"""What `headwise regroup` does once its arguments are read: pool the heads, measure, save, show."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType

from headwise.cli.compared import as_json, file_rows, measured, sizes
from headwise.cli.cutting import rows_of
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import print_out, say
from headwise.cli.reading import reading_model
from headwise.cli.regroup.command import RegroupRequest
from headwise.cli.saving import saved_words
from headwise.cut.ablating.comparing import predicts
from headwise.cut.regrouping.regrouping import regroup
from headwise.cut.saving.saving import save
from headwise.show.cells import print_lines, sentence
from headwise.show.terminal_ablate import files_table
from headwise.show.terminal_cut import sizes_table

__all__ = ["run"]


def run(request: RegroupRequest) -> None:
    """Regroup a model, and show what it costs and saves."""
    model = reading_model(request, call="regroup")
    texts = None
    if request.files:
        corpus, _ = request.reading.corpora(request.files)
        texts = rows_of(model, list(corpus.texts()), request.reading)
    made = regroup(
        model,
        request.num_kv_heads,
        request.how,  # type: ignore[arg-type]
        texts=texts,
        seed=request.seed,
    )
    found = measured(model, made, request.held_out or request.files, request.reading, "regroup")
    held, loss = sizes(model, made), predicts(model)
    saved = None if request.out is None else save(made, request.out)
    told = f"{model.name}: KV heads pooled, {request.how}, to {request.num_kv_heads} a layer"
    if found and not request.held_out:
        told += "; measured on the texts it was pooled by"

    def show(console: Console, colour: bool) -> None:
        width = console.width
        parts: list[RenderableType] = [print_lines(sentence(told, width))]
        parts.append(sizes_table(held, width=width))
        if found:
            parts.append(files_table(file_rows(found), None, loss, width=width))
        console.print(Group(*parts))

    if request.json is not None:
        assert made.regrouping is not None
        write_json(dict(made.regrouping.as_dict()) | as_json(found, held, loss), request.json)
    if str(request.json) != "-":
        print_out(show)
    say(saved_words(saved))
