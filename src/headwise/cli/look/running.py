"""What `headwise look` does once its arguments are read: run the model, then show what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from headwise.cli.look.as_json import as_json, with_preferences, write_json
from headwise.cli.look.bar import long_progress
from headwise.cli.printing import glyphs_told, say
from headwise.hub.load import Model, load
from headwise.names import HeadId, LayerId, ModelError
from headwise.see.circuits.norms import NORMS_SAY
from headwise.see.looking import look
from headwise.see.preferring import Preference, preferences
from headwise.see.record import Record
from headwise.see.summary import Cell, HeadSummary, summarise
from headwise.see.telling import telling
from headwise.see.texts.tokens import tokenize
from headwise.see.texts.words import RULE, find_words, numbered, place_of, to_words, words_of
from headwise.see.wording import Place, looks_of, places_of
from headwise.show.grid import grid_of_summaries
from headwise.show.terminal import (
    Stack,
    WordRow,
    head_grid,
    head_map,
    headline,
    seen_by,
    word_table,
)
from headwise.show.terminal_rather import rather_lines

if TYPE_CHECKING:
    from headwise.cli.look.page import PageRequest

_TELLS = 3
"""With fewer tokens the one before, the first and the token itself are the same."""

_WORD_ROWS = 12
"""How many heads a word's table shows."""


@dataclass(frozen=True)
class View:
    """What was asked for on the command line."""

    text: str
    model: str
    word: str | None
    rather: tuple[str, str] | None
    heads: tuple[str, ...]
    layers: tuple[str, ...]
    by_words: bool
    norms: bool
    renormalise: bool
    top: int
    target: str | None
    pictures: tuple[Path, ...]
    json: Path | None
    device: str | None
    dtype: str | None
    page: PageRequest | None = None


@dataclass(frozen=True)
class Map:
    """One head's map, ready to be shown: NaN where the query may not see the key."""

    title: str
    pattern: np.ndarray
    query_labels: tuple[str, ...]
    key_labels: tuple[str, ...]


def show(view: View) -> None:
    """Look, and show it on the terminal, in pictures and as JSON."""
    model = load(view.model, view.device, view.dtype)
    _check_text(model, view)
    with long_progress(len(view.text) // 3, "reading") as tick:
        record = look(model, view.text, target=view.target, progress=tick)
    chosen = _chosen(record, view)
    places = [] if view.word is None else places_of(record, view.word)
    preferred = [preferences(record, place, *view.rather) for place in places if view.rather]
    with long_progress(len(record.tokens), "comparing heads") as tick:
        summaries = summarise(record, progress=tick)
    maps = _maps(record, summaries, chosen, view) if _shows_maps(view) else []
    if view.json is not None:
        found = as_json(record, summaries, chosen, places, view.norms)
        write_json(with_preferences(found, view.rather, preferred), view.json)
    if view.json is None or str(view.json) != "-":
        _print(view, record, summaries, maps, places, preferred)
    for path in view.pictures:
        _draw(path, record, summaries, maps, view)
    if view.page is not None:
        from headwise.cli.look.page import Opening, write_page

        with long_progress(len(record.tokens), "writing the page") as tick:
            opening = Opening.of(chosen, places, view.by_words)
            write_page(view.page, model, record, summaries, opening, tick)


def _check_text(model: Model, view: View) -> None:
    """Refuse before the model runs a text it cannot read, and a word not in it."""
    if getattr(model.module, "main_input_name", "input_ids") != "input_ids":
        return  # look says what it reads instead
    if model.tokenizer is None:
        raise ModelError(
            f"{view.model} has no tokenizer, so it reads no text; put the tokenizer.json it was trained "
            "with beside its config.json"
        )
    word = view.word
    if word is None or model.encoder_decoder or word.strip().casefold() in view.text.casefold():
        return
    find_words(view.text, words_of(view.text, tokenize(model.tokenizer, view.text)), word)


def _chosen(record: Record, view: View) -> list[HeadId]:
    """The heads asked for by --head and --layer, each once; a wrong one is an error."""
    found = [HeadId.parse(head) for head in view.heads]
    for layer in view.layers:
        held = record.layer(LayerId.parse(layer))
        found.extend(held.id.head(h) for h in held.naming.heads)
    for id in found:
        record.layer_of(id)
    return list(dict.fromkeys(found))


def _shows_maps(view: View) -> bool:
    """Whether any map is asked for: in a picture, or on the terminal beside or instead of a word's table."""
    on_terminal = str(view.json) != "-" and (view.word is None or bool(view.heads or view.layers))
    return bool(view.pictures) or on_terminal


def _maps(
    record: Record, summaries: Sequence[HeadSummary], chosen: Sequence[HeadId], view: View
) -> list[Map]:
    """The maps of the heads asked for, else of the most telling ones."""
    found = [] if chosen else telling(record, summaries, view.top)
    links = {summary.id: cell for summary, cell in found}
    return [_map(record, id, summaries, links, view) for id in chosen or list(links)]


def _map(
    record: Record,
    id: HeadId,
    summaries: Sequence[HeadSummary],
    links: dict[HeadId, Cell],
    view: View,
) -> Map:
    """One head's map by tokens or by words; its title names the link that makes it telling, as the map has it.

    What the head does most is read off its weights, so it stands above no map of norms.
    """
    layer = record.layer_of(id)
    summary = next(s for s in summaries if s.id == id)
    title = f"{id}" if view.norms else f"{id}  {summary.does} {summary.mass:.2f}"
    if len(set(layer.naming.kv)) != layer.num_heads:
        title += f"  (KV group {layer.kv_group(id.head)})"
    if view.norms:
        title += "  norm-based" if layer.lengths is not None else f"  no norms: {layer.no_lengths}"
    weights = record.norm_weights(id) if view.norms else record.weights(id)
    visible, by_words = record.visible(id), view.by_words
    if by_words:
        rows, columns = layer.queries.words, layer.keys.words
        weights = to_words(weights, rows, columns)
        visible = to_words(visible.astype(float), rows, columns) > 0
        labels = tuple(w.text for w in rows), tuple(w.text for w in columns)
    else:
        labels = (
            tuple(t.label for t in layer.queries.tokens),
            tuple(t.label for t in layer.keys.tokens),
        )
    if id in links:
        q, k = links[id].query, links[id].key
        if by_words:
            q, k = place_of(layer.queries.words, q), place_of(layer.keys.words, k)
        looks, seen = numbered(labels[0])[q], numbered(labels[1])[k]
        title += f"  {looks} → {seen} {weights[q, k]:.2f}"
    return Map(title, np.where(visible, weights, np.nan), *labels)


def _print(
    view: View,
    record: Record,
    summaries: Sequence[HeadSummary],
    maps: Sequence[Map],
    places: Sequence[Place],
    preferred: Sequence[Sequence[Preference]],
) -> None:
    console = Console(highlight=False)
    width, colour = console.width, console.is_terminal and not console.no_color
    labels = [token.label for token in record.tokens]
    console.print(headline(record.model, _stacks(record), labels, record.verified, width=width))
    console.print()
    if places:
        _print_word(console, record, places, view.renormalise, colour)
        for place, found in zip(places, preferred, strict=False):
            first, second = view.rather or ("", "")
            word, room = place.word.text, console.width
            console.print(rather_lines(found, word=word, one=first, other=second, width=room))
    else:
        console.print(head_grid(grid_of_summaries(summaries), width=width, colour=colour))
        if len(labels) < _TELLS:
            console.print(f"a text of fewer than {_TELLS} tokens tells little of what a head does")
    for one in maps if view.word is None or view.heads or view.layers else ():
        console.print()
        console.print(
            head_map(
                one.pattern,
                one.query_labels,
                one.key_labels,
                title=one.title,
                width=width,
                colour=colour,
            )
        )
    if view.by_words and maps:
        console.print(RULE)
    if view.norms and maps:
        console.print(NORMS_SAY, markup=False)


def _print_word(
    console: Console, record: Record, places: Sequence[Place], renormalise: bool, colour: bool
) -> None:
    """A table for each place the word stands at."""
    for number, place in enumerate(places, 1):
        if place.note is not None:
            console.print(place.note, markup=False)
        title = place.word.text
        if len(places) > 1:
            title += f" ({number} of {len(places)})"
        rows = [
            WordRow(look.head, look.looks_at, look.first)
            for look in looks_of(record, place, renormalise=renormalise)
        ]
        table = word_table(
            rows[:_WORD_ROWS],
            word=title,
            width=console.width,
            colour=colour,
            renormalised=renormalise,
        )
        console.print(table)
        console.print(f"({min(_WORD_ROWS, len(rows))} of {len(rows)} heads)")
        console.print()
        console.print(seen_by(rows, word=title, width=console.width))
        console.print()


def _stacks(record: Record) -> list[Stack]:
    streams = list(dict.fromkeys(id.stream for id in record.layers))
    stacks = []
    for stream in streams:
        names = [layer.naming for id, layer in record.layers.items() if id.stream == stream]
        kv_heads = [len(set(name.kv)) for name in names]
        stacks.append(Stack.of(stream, [len(name.heads) for name in names], kv_heads))
    return stacks


def _draw(
    path: Path,
    record: Record,
    summaries: Sequence[HeadSummary],
    maps: Sequence[Map],
    view: View,
) -> None:
    """The maps as a picture (the grid, where there are none), with the facts in its caption."""
    from headwise.show.pictures import HeadPicture, draw_grid, draw_maps, save

    caption = f"{record.model}. Text: {record.text}"
    if view.by_words:
        caption += f" ({RULE})"
    scale = "norm-based weight" if view.norms else "attention weight"
    if view.norms and maps:
        caption += f" ({NORMS_SAY})"
    with glyphs_told():
        if maps:
            pictures = [HeadPicture(m.title, m.pattern, m.query_labels, m.key_labels) for m in maps]
            figure = draw_maps(pictures, caption=caption, scale=scale)
        else:
            figure = draw_grid(grid_of_summaries(summaries), caption=caption)
        save(figure, path)
    say(f"wrote {path}")
