"""What is tried of each tool: a question, and a function that tries it and says what came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

HEADWISE, BERTVIZ, LENS, NNSIGHT, PRUNING = (
    "headwise",
    "BertViz",
    "TransformerLens",
    "nnsight",
    "Torch-Pruning",
)
PACKAGES = {
    BERTVIZ: "bertviz",
    LENS: "transformer-lens",
    NNSIGHT: "nnsight",
    PRUNING: "torch-pruning",
}
QUESTIONS = {
    "gqa": (
        "the patterns of all heads of SmolLM2 (grouped-query attention), as it is loaded",
        "SmolLM2(分组查询注意力)按原样加载后,能否给出所有头的注意力图",
    ),
    "eager": (
        "the same, once its attention is switched to eager",
        "同上,但先把注意力切换为 eager",
    ),
    "padding": (
        "a row padded on the left gives the patterns of the row alone",
        "左侧补齐的一行与单独一行的注意力图相同",
    ),
    "unmasked": (
        "the same row without its attention_mask is refused, or its pad found",
        "同一行不给 attention_mask 时,拒绝或自行找出补齐位",
    ),
    "chinese": (
        "a Chinese sentence stands in the page as it is written",
        "页面上的中文句子与原文一致",
    ),
    "offline": ("the page loads nothing from a network", "页面不从网络加载任何内容"),
    "sink": ("names a head that rests on the first token", "能指认停在首个词元上的头"),
    "zeroed": (
        "three heads at zero give the logits of a W_O with their columns at zero",
        "把三个头置零,其 logits 等于 W_O 相应列置零的结果",
    ),
    "nothing": (
        "an intervention that matches no head is told",
        "没有命中任何头的干预会报错",
    ),
    "cut": (
        "a third of the heads cut for good give the logits of the same heads at zero",
        "永久剪去三分之一的头,其 logits 等于同样的头置零的结果",
    ),
    "saved": ("what was cut is saved and loaded again", "剪枝后的模型可保存并重新加载"),
    "uneven": (
        "two named heads of different layers are cut alone, and saved and loaded again",
        "只剪去不同层的两个指定的头,并可保存和重新加载",
    ),
    "mlp": ("the output of a feed-forward network is replaced", "替换前馈网络的输出"),
    "residual": (
        "intermediate tensors by name, beside attention",
        "按名称取得注意力以外的中间张量",
    ),
    "channels": ("channels of a convolution are cut", "剪去卷积的通道"),
    "leak": ("a model that sees the future is told from one that does not", "分辨能看见未来的模型"),
}
"""By name, in English and in Chinese."""


@dataclass(frozen=True)
class Answer:
    """What came of one try."""

    question: str
    tool: str
    yes: bool
    said: str


class No(Exception):  # noqa: N818  # an answer
    """The tool ran and did not do it; the text says what came."""


TRIES: list[tuple[str, str, Callable[[], str]]] = []


def tries(question: str, tool: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Note a function as the try of a question with a tool."""

    def noted(function: Callable[[], str]) -> Callable[[], str]:
        assert question in QUESTIONS
        TRIES.append((question, tool, function))
        return function

    return noted


def answered(question: str, tool: str, function: Callable[[], str]) -> Answer:
    """Run a try; any error of the tool is an answer, with its text."""
    try:
        return Answer(question, tool, True, function())
    except No as no:
        return Answer(question, tool, False, str(no))
    except Exception as error:
        first = " ".join(str(error).split())[:160]
        return Answer(question, tool, False, f"{type(error).__name__}: {first}")


def same(found: float, bar: float) -> str:
    """The largest difference as what was found, refused above the bar."""
    said = f"largest difference {found:.1e}"
    if found > bar:
        raise No(said)
    return said
