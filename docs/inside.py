"""Draw how headwise works inside: the one picture of the page `inside`, in either language.

    python docs/inside.py -o docs/en/pictures/inside.svg
    python docs/inside.py --language zh-CN -o docs/zh-CN/pictures/inside.svg

Plain SVG. Its colours are those of the reader's theme, light or dark, so it can stand on either ground.
"""

from __future__ import annotations

import argparse
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 860, 600
STYLE = """
  .ground { fill: #ffffff; } .box { fill: #f2f6fb; stroke: #33516e; }
  .core { fill: #dcebf9; stroke: #0b5fa5; } .result { fill: #fdf3e0; stroke: #9a6200; }
  text { fill: #16202b; font-family: "DejaVu Sans", "Noto Sans CJK SC", "PingFang SC",
    "Microsoft YaHei", sans-serif; }
  .small { fill: #465564; } .arrow { stroke: #33516e; fill: none; } .tip { fill: #33516e; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #131416; } .box { fill: #1e2833; stroke: #8fb3d6; }
    .core { fill: #123352; stroke: #6cb4f2; } .result { fill: #3a2d12; stroke: #e0b35c; }
    text { fill: #eef2f6; } .small { fill: #b4c1ce; }
    .arrow { stroke: #8fb3d6; } .tip { fill: #8fb3d6; }
  }
"""

# (x, y, width, height, kind, title, lines)
BOXES = {
    "text": (20, 60, 120, 70, "box"),
    "tokens": (190, 60, 150, 70, "box"),
    "model": (390, 60, 220, 70, "box"),
    "logits": (680, 60, 160, 70, "box"),
    "attend": (260, 180, 480, 60, "core"),
    "fast": (130, 290, 280, 80, "core"),
    "stream": (450, 290, 390, 80, "core"),
    "cut": (20, 520, 190, 65, "result"),
    "rank": (20, 420, 190, 70, "result"),
    "record": (240, 420, 190, 70, "result"),
    "profile": (450, 420, 190, 70, "result"),
    "roles": (660, 420, 180, 70, "result"),
    "pictures": (240, 520, 600, 65, "result"),
}
ARROWS = (
    ((140, 95), (190, 95)),
    ((340, 95), (390, 95)),
    ((610, 95), (680, 95)),
    ((500, 130), (500, 180)),
    ((360, 240), (270, 290)),
    ((600, 240), (645, 290)),
    ((430, 240), (424, 420)),
    ((600, 370), (545, 420)),
    ((640, 455), (660, 455)),
    ((160, 370), (115, 420)),
    ((115, 490), (115, 520)),
    ((335, 490), (335, 520)),
    ((545, 490), (545, 520)),
    ((750, 490), (750, 520)),
)
WORDS = {
    "en": {
        "title": "One function for every head",
        "text": ("text", "any language"),
        "tokens": ("tokens", "each with its characters"),
        "model": ("model", "transformers', torch's, yours, ours"),
        "logits": ("logits", "unchanged by looking"),
        "attend": (
            "attend(q, k, v, mask) → z",
            "a tap on each attention layer: who may see whom, and z before W_O",
        ),
        "fast": (
            "fast path: nothing asked",
            "fused attention or the compiled kernel",
            "gates and edits of z act here too",
        ),
        "stream": (
            "streaming path: statistics asked",
            "blocks of queries, never n × n",
            "the compiled kernel, or plain torch: same numbers",
        ),
        "record": ("record", "q, k, mask of one text;", "any head unfolded when asked"),
        "profile": ("profile", "statistics of every head", "over a corpus, in two halves"),
        "roles": ("roles", "probe against baseline,", "with the cases"),
        "rank": ("importance", "gradients at gates,", "or heads left out"),
        "cut": ("smaller model", "pruned; proved = heads at 0"),
        "pictures": (
            "pictures",
            "terminal, PNG and SVG, one page for the browser, notebook, server, tables",
        ),
    },
    "zh-CN": {
        "title": "每个头都经过同一个函数",
        "text": ("文本", "任何语言"),
        "tokens": ("token", "各自对应原文的字符"),
        "model": ("模型", "transformers、torch、你的、我们的"),
        "logits": ("logits", "观察不改变它"),
        "attend": (
            "attend(q, k, v, mask) → z",
            "每个注意力层上有一个接点:谁能看谁,以及 W_O 之前的 z",
        ),
        "fast": ("快路径:什么都不问", "融合注意力或编译好的内核", "门和对 z 的改动也在这里"),
        "stream": (
            "流式路径:要统计量",
            "按查询分块,从不占用 n × n",
            "编译好的内核或纯 torch:数字相同",
        ),
        "record": ("记录", "一段文本的 q、k 和掩码;", "要看哪个头再展开"),
        "profile": ("统计", "每个头在语料上的统计量,", "分成两半"),
        "roles": ("角色", "探针对照基线,", "附上实例"),
        "rank": ("重要性", "门上的梯度,", "或者把头去掉"),
        "cut": ("更小的模型", "剪枝;证明等于把这些头置零"),
        "pictures": ("图", "终端、PNG 和 SVG、浏览器里的单页、notebook、服务器、表格"),
    },
}


def picture(language: str) -> str:
    """The picture as SVG, with the words of a language."""
    words = WORDS[language]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(words['title'])}</title><style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="20" y="34" font-size="19" font-weight="bold">{escape(words["title"])}</text>',
    ]
    for (x, y), (to_x, to_y) in ARROWS:
        parts.append(
            f'<path class="arrow" stroke-width="1.6" marker-end="url(#tip)" d="M{x} {y} L{to_x} {to_y}"/>'
        )
    parts += [box(*BOXES[name], words[name]) for name in BOXES]
    return "\n".join([*parts, "</svg>", ""])


def box(x: int, y: int, width: int, height: int, kind: str, lines: tuple[str, ...]) -> str:
    """A box with its title and the lines under it, in the middle."""
    top = y + height / 2 - 9 * (len(lines) - 1) + 5
    drawn = [
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6" stroke-width="1.4"/>'
    ]
    for i, line in enumerate(lines):
        look = 'font-size="15" font-weight="bold"' if i == 0 else 'class="small" font-size="11.5"'
        drawn.append(
            f'<text x="{x + width / 2}" y="{top + 18 * i:g}" text-anchor="middle" {look}>{escape(line)}</text>'
        )
    return "\n".join(drawn)


def main() -> None:
    """Write it where it is asked for."""
    asked = argparse.ArgumentParser(description=picture.__doc__)
    asked.add_argument("-o", "--out", type=Path, required=True)
    asked.add_argument("--language", choices=sorted(WORDS), default="en")
    given = asked.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(picture(given.language), encoding="utf-8")


if __name__ == "__main__":
    main()
