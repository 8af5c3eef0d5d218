"""Series: tokens in a natural order, where each has one before it (days, months, numbers, letters)."""

from __future__ import annotations

from typing import NamedTuple

from headwise.see.record import Side
from headwise.see.texts.tokens import Token

__all__ = ["Item", "before", "items_of"]


class Item(NamedTuple):
    """A place in a series."""

    series: str
    number: int


_ROUND = {
    "days": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "short days": "Mon Tue Wed Thu Fri Sat Sun",
    "months": "January February March April May June July August September October November December",
    "short months": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    "星期": "星期一 星期二 星期三 星期四 星期五 星期六 星期日",
    "周": "周一 周二 周三 周四 周五 周六 周日",
    "週": "週一 週二 週三 週四 週五 週六 週日",
    "月": "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月",
}
"""Series that begin again after their end, as they are written; English ones in capitals too."""

_WORDS = {
    "numbers": (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty"
    ),
    "ordinals": (
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
        "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
    ),
}
"""Series in small letters, with a capital or in capitals."""

_EXACT = {
    "letters": "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "capitals": "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z",
    "数": "零 一 二 三 四 五 六 七 八 九 十",
    "第": "第一 第二 第三 第四 第五 第六 第七 第八 第九 第十",
    "干": "甲 乙 丙 丁 戊 己 庚 辛 壬 癸",
}
"""Series as they are written."""

_NUMERALS = frozenset("零〇一二两兩三四五六七八九十百千万萬亿億")
"""A Chinese numeral beside one of these is a part of a number."""

_MOST_DIGITS = 10
"""A number of so many digits counts nothing on."""

_PLACES: dict[str, tuple[Item, ...]] = {}
_LENGTHS: dict[str, int] = {}
for _table, _forms in (
    (_ROUND, (str, str.upper)),
    (_WORDS, (str, str.capitalize, str.upper)),
    (_EXACT, (str,)),
):
    for _series, _all in _table.items():
        for _number, _word in enumerate(_all.split()):
            for _written in {_form(_word) for _form in _forms}:
                _PLACES[_written] = (*_PLACES.get(_written, ()), Item(_series, _number))
        if _table is _ROUND:
            _LENGTHS[_series] = len(_all.split())


def items_of(side: Side) -> list[tuple[Item, ...]]:
    """For each token its places in series (May has two): it must be the item as a whole word.

    Ids without a tokenizer, which stand for themselves, are no numbers.
    """
    if all(token.text == str(token.id) for token in side.tokens):
        return [()] * len(side.tokens)
    return [_items(side.text, token) for token in side.tokens]


def before(item: Item) -> Item:
    """The place before; a series that goes round has one before its first, others have none that occurs."""
    number = item.number - 1
    length = _LENGTHS.get(item.series)
    return Item(item.series, number if length is None else number % length)


def _items(text: str, token: Token) -> tuple[Item, ...]:
    if token.special or token.part is not None:
        return ()
    word = token.text.strip()
    if word.isascii() and word.isdecimal():
        found: tuple[Item, ...] = (Item("digits", int(word)),) if len(word) < _MOST_DIGITS else ()
    else:
        found = _PLACES.get(word, ())
    start = token.start + len(token.text) - len(token.text.lstrip())
    beside = text[max(0, start - 1) : start] + text[start + len(word) : start + len(word) + 1]
    return () if any(_joins(c, word) for c in beside) else found


def _joins(c: str, word: str) -> bool:
    """Whether the character beside makes the token a part of a longer word or number."""
    if word.isascii():
        return c.isascii() and (c.isalnum() or c == "_")
    return word in _NUMERALS and c in _NUMERALS
