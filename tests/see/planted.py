"""A model whose heads are what they are by construction: its weights are set by hand."""

from __future__ import annotations

import torch
from see_help import word_tokenizer
from torch import Tensor, nn

import headwise as hw
from headwise.core import masks

SUBJECTS = ("cat", "dog", "bird", "girl")
OBJECTS = ("ball", "tree", "book", "song")
VERBS = ("saw", "found", "liked", "heard")
OTHERS = ("the", "a", "often", "never", "now", "old", ".")
LENGTH = 64
HARD = 400.0
"""How much a score that is met outweighs one that is not: the softmax of the rest is 0 in float32."""

PLANTED = {
    "previous": "0.0",
    "first": "0.1",
    "nsubj_to_dependent": "0.2",
    "induction_random": "1.0",
}


class Planted(nn.Module):
    """Two layers of three heads over [token | position | token before | 1].

    A query that a head has nothing to do for looks at itself.
    """

    def __init__(self, words: dict[str, int]) -> None:
        super().__init__()
        self.words, v = words, len(words)
        self.token = slice(0, v)
        self.place = slice(v, v + LENGTH)
        self.before = slice(v + LENGTH, 2 * v + LENGTH)
        self.width = 2 * v + LENGTH + 1
        self.dim = max(v, LENGTH) + LENGTH
        self.layers = nn.ModuleList(
            [
                hw.nn.MultiHeadAttention(self.width, 3, head_dim=self.dim, bias=False)
                for _ in range(2)
            ]
        )
        with torch.no_grad():
            for layer in self.layers:
                layer.w_qkv.weight.zero_()
                layer.w_o.weight.zero_()
            self._previous(0, 0)
            self._first(0, 1)
            self._relation(0, 2)
            self._induction(1, 0)
            self._self(1, 1)
            self._first(1, 2)

    def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        x = ids.new_zeros(*ids.shape, self.width, dtype=torch.float32)
        x[..., self.token] = nn.functional.one_hot(ids, len(self.words)).float()
        x[..., self.place] = torch.eye(LENGTH)[: ids.shape[1]]
        x[..., -1] = 1.0
        mask = masks.causal()
        if key_padding_mask is not None:
            mask = mask & masks.padding(key_padding_mask=key_padding_mask)
        for layer in self.layers:
            x = x + layer(x, mask)
        return x

    def _maps(self, layer: int, head: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W_Q, W_K, W_V [dim, width] and W_O [width, dim] of a head, to be written to."""
        attention = self.layers[layer]
        rows = attention.w_qkv.weight.view(3, 3, self.dim, self.width)[:, head]
        columns = slice(head * self.dim, (head + 1) * self.dim)
        return rows[0], rows[1], rows[2], attention.w_o.weight[:, columns]

    def _rest(self, q: Tensor, k: Tensor) -> None:
        """Where nothing else is met, the query itself."""
        q[-LENGTH:, self.place] = HARD * self.dim**0.5 * torch.eye(LENGTH)
        k[-LENGTH:, self.place] = torch.eye(LENGTH)

    def _previous(self, layer: int, head: int) -> None:
        q, k, v, o = self._maps(layer, head)
        self._rest(q, k)
        q[: LENGTH - 1, self.place] = 2 * HARD * self.dim**0.5 * torch.eye(LENGTH)[1:]
        k[: LENGTH - 1, self.place] = torch.eye(LENGTH)[:-1]
        count = len(self.words)
        v[:count, self.token] = torch.eye(count)
        o[self.before, :count] = torch.eye(count)

    def _first(self, layer: int, head: int) -> None:
        q, k, _, _ = self._maps(layer, head)
        q[0, -1] = HARD * self.dim**0.5
        k[0, self.place.start] = 1.0

    def _self(self, layer: int, head: int) -> None:
        q, k, _, _ = self._maps(layer, head)
        self._rest(q, k)

    def _relation(self, layer: int, head: int) -> None:
        """Verbs look at the subject."""
        q, k, _, _ = self._maps(layer, head)
        self._rest(q, k)
        q[0, [self.words[verb] for verb in VERBS]] = 2 * HARD * self.dim**0.5
        k[0, [self.words[subject] for subject in SUBJECTS]] = 1.0

    def _induction(self, layer: int, head: int) -> None:
        """A token looks where the token before is itself; a token's own place never is, so itself is the rest."""
        q, k, _, _ = self._maps(layer, head)
        self._rest(q, k)
        count = len(self.words)
        q[:count, self.token] = 2 * HARD * self.dim**0.5 * torch.eye(count)
        k[:count, self.before] = torch.eye(count)
        k[:count, self.place.start] = -1.0  # there is none before the first


def planted() -> hw.Model:
    tokenizer = word_tokenizer(*SUBJECTS, *OBJECTS, *VERBS, *OTHERS)
    return hw.load(Planted(tokenizer.get_vocab()), tokenizer=tokenizer)


def treebank(sentences: int, seed: int = 0) -> str:
    """Sentences of a subject, a verb and an object with words between, as CoNLL-U, no two the same."""
    random = torch.Generator().manual_seed(seed)

    def pick(words: tuple[str, ...]) -> str:
        return words[int(torch.randint(len(words), (1,), generator=random))]

    found: dict[str, str] = {}
    while len(found) < sentences:
        adverbs = ("often", "never", "now")
        order = [adverbs[i] for i in torch.randperm(3, generator=random).tolist()]
        between = 1 + int(torch.randint(3, (1,), generator=random))
        start = order[between : between + int(torch.randint(3, (1,), generator=random))]
        words = [*start, "the", "old", pick(SUBJECTS), *order[:between]]
        words += [pick(VERBS), "a", pick(OBJECTS), "."]
        at = {kind: next(i for i, w in enumerate(words, 1) if w in of) for kind, of in
              {"subject": SUBJECTS, "verb": VERBS, "object": OBJECTS}.items()}  # fmt: skip
        lines = [f"# text = {' '.join(words)}"]
        for i, word in enumerate(words, 1):
            head, relation = at["verb"], "dep"
            if i == at["verb"]:
                head, relation = 0, "root"
            elif i in (at["subject"], at["object"]):
                relation = "nsubj" if i == at["subject"] else "obj"
            lines.append(
                "\t".join([str(i), word, word, "X", "_", "_", str(head), relation, "_", "_"])
            )
        found.setdefault(lines[0], "\n".join(lines))
    return "\n\n".join(found.values()) + "\n\n"
