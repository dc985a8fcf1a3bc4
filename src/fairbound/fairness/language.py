"""The language of bounds, `NAME[options] <= BOUND`: reading a bound from its text, and writing the text of a bound.

Both go by one table of options for each notion, so that they are inverse to each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.base.names import did_you_mean

SENSES = {"at most": "<=", "at least": ">="}


@dataclass(frozen=True)
class Word:
    """A bare word that gives a field its value: "overall" is against="overall"."""

    field: str
    value: Any


@dataclass(frozen=True)
class Key:
    """key=text. read: the text as the field's value, ValueError where it is none; show: the value as text."""

    field: str
    read: Callable[[str], Any] = str
    show: Callable[[Any], str] = str


@dataclass(frozen=True)
class Form:
    """A word of a form of its own, such as 0.05:0.3. read: the word as the field's value, None where it is no such
    word;
    shown: how the form is written, for messages. many: the field holds a tuple of them, and the word may come again."""

    field: str
    read: Callable[[str], Any]
    show: Callable[[Any], str]
    shown: str
    many: bool = False


Option = Word | Key | Form

_TEXT = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?:\[(.*)\])?\s*(?:(<=|>=|≤|≥|==|=|<|>)\s*(\S*))?\s*$", re.DOTALL)


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")


def plain_number(text: str) -> float:
    """The number that ASCII digits write, as 0.02 or 2e-2. Raises: ValueError for anything else,
    1_0 and other digits among it."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def number_text(value: float) -> str:
    """The shortest text that reads back as this number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def without_against(table: Mapping[str, Option]) -> dict[str, Option]:
    """The options of a table by which `against` is not set."""

    def sets_against(option: Option) -> bool:
        return isinstance(option, (Word, Key)) and option.field == "against"

    return {key: option for key, option in table.items() if not sets_against(option)}


def option_texts(bound: Any, table: Mapping[str, Option]) -> list[str]:
    """The options of a bound that differ from their defaults, as text."""
    if not table:
        return []
    defaults = {f.name: f.default for f in fields(bound) if f.default is not NO_DEFAULT}
    out, done = [], set()
    for key, option in table.items():
        value = getattr(bound, option.field)
        if option.field in done or (option.field in defaults and value == defaults[option.field]):
            continue
        if isinstance(option, Word):
            if value != option.value:
                continue
            out.append(key)
        elif isinstance(option, Form):
            out += [option.show(part) for part in value] if option.many else [option.show(value)]
        else:
            out.append(f"{key}={option.show(value)}")
        done.add(option.field)
    return out


def read_bound(cls: type[Any], text: str, *, bound: float | None) -> Any:
    """The bound of class `cls` that `text` states. bound: the number, where the text states none.

    Raises: OptionError that names what was not understood, with the nearest word that would be.
    """
    match = _TEXT.match(text)
    assert match is not None
    _, inside, sign, number = match.groups()
    wanted = SENSES[cls.sense]
    example = f"'{cls.name} {wanted} {cls.example}'"
    if sign is None and bound is None:
        raise OptionError(f"cannot read the constraint {text!r}: it states no bound; write it like {example}.")
    if sign is not None and sign in ("=", "==", wanted[0]):
        raise OptionError(f"cannot read the constraint {text!r}: write {wanted!r} for {sign!r}, as in {example}.")
    if sign is not None and {"≤": "<=", "≥": ">="}.get(sign, sign) != wanted:
        why = "from below" if wanted == ">=" else "from above"
        raise OptionError(f"cannot read the constraint {text!r}: {cls.name} is bounded {why}; write it like {example}.")
    if sign is not None and not number:
        raise OptionError(f"cannot read the constraint {text!r}: the bound is missing; write it like {example}.")
    try:
        value = bound if sign is None else plain_number(number)
    except ValueError:
        raise OptionError(f"the bound {number!r} in {text!r} is not a number{_meant(number)}.") from None
    options = read_options(cls, inside or "", text)
    lacking = [f.name for f in fields(cls) if f.default is NO_DEFAULT and f.name not in ("bound", *options)]
    if lacking:
        words = [word for word, o in cls.OPTIONS.items() if isinstance(o, Word) and o.field == lacking[0]]
        said = f"one of {', '.join(words)}" if words else f"{lacking[0]}=..."
        raise OptionError(f"cannot read the constraint {text!r}: say {said} in brackets; {cls.name} needs it.")
    return cls(**{"bound": value}, **options)


def _meant(number: str) -> str:
    """What to write for a bound in percent, or with a comma before its fraction; nothing for other texts."""
    try:
        value = float(number[:-1]) / 100 if number.endswith("%") else plain_number(number.replace(",", ".", 1))
        return f"; write {value:g}"
    except ValueError:
        return ""


def read_options(cls: type[Any], inside: str, text: str) -> dict[str, Any]:
    """The fields that the words `inside` brackets set, by the OPTIONS of `cls`.
    Raises: OptionError naming text and word."""
    options: dict[str, Any] = {}
    said: dict[str, str] = {}
    for word in filter(None, (o.strip() for o in inside.split(","))):
        option, value = _read_option(cls, word, text)
        many = isinstance(option, Form) and option.many
        if option.field in said and not many:
            raise OptionError(f"{said[option.field]!r} and {word!r} in {text!r} say the same thing twice; keep one.")
        said[option.field] = word
        options[option.field] = (*options.get(option.field, ()), value) if many else value
    return options


def _read_option(cls: type[Any], word: str, text: str) -> tuple[Option, Any]:
    """The option that a word speaks of, and the value that it gives."""
    table: Mapping[str, Option] = cls.OPTIONS
    for option in table.values():
        if isinstance(option, Form) and (made := option.read(word)) is not None:
            return option, made
    key, equals, value = (part.strip() for part in word.partition("="))
    if not equals and key not in table and "+" in key and "by" in table:
        key, equals, value = "by", "=", key  # names joined by + can be nothing else
    named = table.get(key)
    if isinstance(named, Word) and not equals:
        return named, named.value
    if not isinstance(named, Key) or not equals:
        raise OptionError(_unknown(cls, key, word, text))
    try:
        return named, named.read(value)
    except ValueError:
        raise OptionError(f"the {key} {value!r} in {text!r} is not a number.") from None


def _unknown(cls: type[Any], key: str, word: str, text: str) -> str:
    table: Mapping[str, Option] = cls.OPTIONS
    shown = {k: f"{k}=..." if isinstance(o, Key) else o.shown if isinstance(o, Form) else k for k, o in table.items()}
    meant = did_you_mean(key, table, before="; ", otherwise=";", shown=shown)
    known = ", ".join(shown.values()) or "none"
    could_be = "by" in table and re.fullmatch(r"[^\W\d][\w ]*", word)
    attributes = f" To compare the groups of the attribute {word!r}, write by={word}." if could_be else ""
    return f"unknown option {word!r} in {text!r}{meant} {cls.name} has: {known}.{attributes}"


def leading_name(text: Any) -> str:
    """The name that a statement begins with. Raises: OptionError where it does not look like one."""
    match = _TEXT.match(text) if isinstance(text, str) else None
    word = re.match(r"^\s*([A-Za-z_]\w*)", text) if isinstance(text, str) else None
    if match is None and (word is None or not re.match(r"^\s*(recall|error)\b", text)):
        raise OptionError(
            f"cannot read the constraint {text!r}; write it like 'demographic_parity <= 0.02'.{_hint(text)}"
        )
    return (match or word).group(1)  # type: ignore[union-attr]


def _hint(text: Any) -> str:
    """What may be wrong with a text that is no bound."""
    if not isinstance(text, str):
        return ""
    if len(re.findall(r"<=|>=|≤|≥", text)) > 1:
        return " One text states one bound: give several as a list, or repeat --constraint."
    if re.match(r"^\s*\w+\s+of\s+class\b", text):
        return " Of a class, its recall or its error is bounded, as in 'recall of class b >= 0.95'."
    if turned := re.search(r"=>|=<", text):
        return f" Write {turned[0][::-1]!r} for {turned[0]!r}."
    if re.match(r"^\s*[-+.\d]", text):
        return " The name of the notion comes first, the bound last."
    name = re.match(r"^\s*([A-Za-z_]\w*(?:[ -]+\w+)+)\s*(?:[\[<>=≤≥]|$)", text)
    return f" The name of a notion is one word: {re.sub('[ -]+', '_', name[1]).lower()!r}." if name else ""
