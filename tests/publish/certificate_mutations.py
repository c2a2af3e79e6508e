"""Structural mutations of a signed document: nobody but the signer may make them.

A document is held as `Members` (the pairs of an object, a key twice if need be), lists and scalars,
so that every JSON text can be written. Two documents say the same if `describe` gives one text for
both; that text is written here, not by dither.
"""

from __future__ import annotations

import copy
import json
import random
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from tests.publish.certificate_samples import digest_field, list_fields


class Members(list):
    """The pairs of a JSON object, in order."""


class Verbatim(str):
    """A text that is written without quotes."""


Mutation = Callable[[Members, random.Random], None]


def read_members(text: str) -> Members:
    return json.loads(text, object_pairs_hook=Members)


def describe(tree: Any) -> str:
    """One text for all documents that say the same: objects sorted, types kept."""
    if isinstance(tree, Members):
        return (
            "{"
            + ",".join(sorted(f"{json.dumps(key)}:{describe(value)}" for key, value in tree))
            + "}"
        )
    if isinstance(tree, list):
        return "[" + ",".join(map(describe, tree)) + "]"
    return f"verbatim {tree}" if isinstance(tree, Verbatim) else json.dumps(tree)


def write_styled(tree: Any, choose: random.Random) -> str:
    """The document as JSON in some style: spaces, order of keys and escapes are free."""
    space = choose.choice(["", " ", "\n", "\t", "\r\n "])
    quote = choose.choice([write_ascii, write_letters, choose.choice(ESCAPING_STYLES)])
    shuffle = choose.random() < 0.5

    def write(value: Any) -> str:
        if isinstance(value, Members):
            pairs = [f"{quote(key)}{space}:{space}{write(item)}" for key, item in value]
            if shuffle:
                choose.shuffle(pairs)
            return "{" + space + f"{space},{space}".join(pairs) + space + "}"
        if isinstance(value, list):
            return "[" + space + f",{space}".join(map(write, value)) + space + "]"
        if isinstance(value, Verbatim):
            return str(value)
        return quote(value) if isinstance(value, str) else json.dumps(value)

    return space + write(tree) + space


def write_letters(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def write_ascii(text: str) -> str:
    return json.dumps(text)


def write_escaping(letters: str) -> Callable[[str], str]:
    """A writer that writes these letters, and what JSON demands, as escapes."""
    codes = [*map(ord, letters), *range(0x20), ord('"'), ord("\\")]
    table = {code: f"\\u{code:04x}" for code in codes}

    def write(text: str) -> str:
        return f'"{text.translate(table)}"'

    return write


ESCAPING_STYLES = tuple(map(write_escaping, ["aeiou", "0123456789", "./ {}:,", "ABCüÅﬁ"]))


# -- places in a document --------------------------------------------------------------------------


def list_objects(tree: Any) -> Iterator[Members]:
    """Every object of a document that has members."""
    if isinstance(tree, Members):
        if tree:
            yield tree
        for _, value in tree:
            yield from list_objects(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from list_objects(value)


def list_lists(tree: Any) -> Iterator[list[Any]]:
    if isinstance(tree, list):
        if tree and not isinstance(tree, Members):
            yield tree
        for item in tree:
            yield from list_lists(item[1] if isinstance(tree, Members) else item)


def choose_object(tree: Members, choose: random.Random) -> Members:
    """Any object, the outermost ones as often as all others together."""
    objects = list(list_objects(tree))
    body = get(tree, "body")
    return (
        choose.choice(objects)
        if choose.random() < 0.5 or not body
        else choose.choice([tree, body, body])
    )


def choose_member(tree: Members, choose: random.Random) -> tuple[Members, int]:
    target = choose_object(tree, choose)
    return target, choose.randrange(len(target))


def get(tree: Members, key: str) -> Members:
    """The object under a key; an empty one that belongs to nothing where there is none."""
    return next(
        (value for name, value in tree if name == key and isinstance(value, Members)), Members()
    )


# -- mutations -------------------------------------------------------------------------------------

NAMES = (
    "",
    " ",
    "x",
    "body",
    "epsilon",
    "guarantee",
    "guarantee.epsilon",
    "\\",
    ".",
    "unit\u200b",
    "Unit",
    "\u0000",
)
SCALARS = ("", "0.1", "0", "x", 0, 1, -1, True, False, None, 10**30)
NUMBERS = ("1.0", "1e0", "-0", "10E-1", "0.3", "NaN", "-Infinity", "1" * 2000)


def add_member(tree: Members, choose: random.Random) -> None:
    target = choose_object(tree, choose)
    target.insert(
        choose.randint(0, len(target)),
        (choose.choice(NAMES), copy.deepcopy(choose_value(tree, choose))),
    )


def choose_value(tree: Members, choose: random.Random) -> Any:
    if choose.random() < 0.5:
        return choose.choice(SCALARS)
    target, index = choose_member(tree, choose)
    return target[index][1]


def remove_member(tree: Members, choose: random.Random) -> None:
    target, index = choose_member(tree, choose)
    del target[index]


def move_member(tree: Members, choose: random.Random) -> None:
    source, index = choose_member(tree, choose)
    pair = source.pop(index)
    if objects := list(list_objects(tree)):
        choose.choice(objects).append(copy.deepcopy(pair))


def change_member(tree: Members, choose: random.Random) -> None:
    target, index = choose_member(tree, choose)
    key, value = target[index]
    if isinstance(value, str):
        value = choose.choice(
            [value + "0", value[:-1], value.upper(), f" {value}", value.replace("3", "1")]
        )
    else:
        value = choose.choice(SCALARS)
    target[index] = (key, value)


def rename_member(tree: Members, choose: random.Random) -> None:
    target, index = choose_member(tree, choose)
    key, value = target[index]
    target[index] = (
        choose.choice([*NAMES, key.upper(), key + " ", f"{key}.{key}", key[:-1]]),
        value,
    )


def swap_values(tree: Members, choose: random.Random) -> None:
    first, i = choose_member(tree, choose)
    second, j = choose_member(tree, choose)
    if not (isinstance(first[i][1], list) or isinstance(second[j][1], list)):
        first[i], second[j] = (first[i][0], second[j][1]), (second[j][0], first[i][1])


def duplicate_member(tree: Members, choose: random.Random) -> None:
    target, index = choose_member(tree, choose)
    value = copy.deepcopy(target[index][1] if choose.random() < 0.5 else choose_value(tree, choose))
    target.insert(choose.randint(0, len(target)), (target[index][0], value))


def hide_under_key(tree: Members, choose: random.Random) -> None:
    """The forgery of version 1 and its relatives: the signed object below a key of another."""
    target = (
        choose.choice([get(tree, "body"), choose_object(tree, choose), get(tree, "header")]) or tree
    )
    signed = copy.deepcopy(target)
    if choose.random() < 0.5:
        change_member(target, choose)
    elif choose.random() < 0.5:
        target.clear()
    target.insert(choose.randint(0, len(target)), (choose.choice(["", "", "body", "."]), signed))


def nest_value(tree: Members, choose: random.Random) -> None:
    target, index = choose_member(tree, choose)
    key, value = target[index]
    target[index] = (
        key,
        choose.choice([Members([("", value)]), Members([(key, value)]), [value], Members()]),
    )


def flatten_object(tree: Members, choose: random.Random) -> None:
    """Members of an object as dotted names of the object around it."""
    target, index = choose_member(tree, choose)
    key, value = target[index]
    if isinstance(value, Members):
        separator = choose.choice([".", "\\.", "..", ""])
        target[index : index + 1] = [(f"{key}{separator}{name}", item) for name, item in value]


def split_name(tree: Members, choose: random.Random) -> None:
    """A dotted name as an object in an object."""
    dotted = [
        (target, i)
        for target in list_objects(tree)
        for i, (key, _) in enumerate(target)
        if "." in key
    ]
    if dotted:
        target, index = choose.choice(dotted)
        key, value = target[index]
        head, _, tail = key.partition(".")
        target[index] = (head, Members([(tail, value)]))


def retype_value(tree: Members, choose: random.Random) -> None:
    """A value of another type; half of the time one of the few integers and booleans."""
    target, index = choose_member(tree, choose)
    if choose.random() < 0.5:
        target, index = choose.choice(list(list_numbers(tree)))
    key, value = target[index]
    forms: list[Any] = [[value], None, Verbatim(choose.choice(NUMBERS))]
    if isinstance(value, (bool, int)):
        forms += [
            str(value).lower(),
            bool(value),
            int(value),
            Verbatim(f"{int(value)}.0"),
            Verbatim(f"0{int(value)}"),
        ]
    elif isinstance(value, str):
        forms += [
            Verbatim(value) if value[:1].isdigit() else value.swapcase(),
            [*value],
            value == "true",
        ]
    else:
        forms += ["", False, Members() if not isinstance(value, Members) else []]
    target[index] = (key, choose.choice(forms))


def list_numbers(tree: Members) -> Iterator[tuple[Members, int]]:
    for target in list_objects(tree):
        yield from (
            (target, index) for index, (_, value) in enumerate(target) if isinstance(value, int)
        )


def normalise_text(tree: Members, choose: random.Random) -> None:
    """Every text in another Unicode form, or one with a look-alike or an invisible letter."""
    form = choose.choice(["NFC", "NFD", "NFKC", "NFKD"])
    if choose.random() < 0.5:
        for target in list_objects(tree):
            target[:] = [(key, normalise(value, form)) for key, value in target]
        return
    target, index = choose_member(tree, choose)
    key, value = target[index]
    if isinstance(value, str) and value:
        wide = "".join(
            chr(ord(letter) + 0xFEE0) if letter.isdigit() else letter for letter in value
        )
        value = choose.choice(
            [
                wide,
                value + "\u200b",
                "\u202e" + value,
                value.replace("a", "\u0430"),
                value + "\u0301",
            ]
        )
    target[index] = (key, value)


def normalise(value: Any, form: str) -> Any:
    return unicodedata.normalize(form, value) if type(value) is str else value


def rearrange_list(tree: Members, choose: random.Random) -> None:
    if lists := list(list_lists(tree)):
        target = choose.choice(lists)
        if choose.random() < 0.5:
            choose.shuffle(target)
        else:
            target.insert(choose.randint(0, len(target)), copy.deepcopy(choose.choice(target)))


def respell_hex(tree: Members, choose: random.Random) -> None:
    """Signature, key or digests in capitals, with spaces, longer or shorter."""
    target = choose.choice([tree, get(tree, "header"), get(get(tree, "header"), "digests")])
    texts = [i for i, (_, value) in enumerate(target or []) if isinstance(value, str)]
    if texts:
        index = choose.choice(texts)
        key, value = target[index]
        forms = [
            value.upper(),
            f" {value}",
            f"{value} ",
            f"{value[:2]} {value[2:]}",
            f"00{value}",
            value[2:],
            value[::-1],
        ]
        target[index] = (key, choose.choice(forms))


def change_version(tree: Members, choose: random.Random) -> None:
    header = get(tree, "header")
    header[:] = [
        (key, choose.choice([0, 1, 2, 3, True, "2"]) if key == "v" else value)
        for key, value in header
    ]


def forge_digests(tree: Members, choose: random.Random) -> None:
    """A changed body with digests that fit it, as anyone can compute them without the key."""
    change_member(get(tree, "body") or tree, choose)
    fitting = [
        (path, digest_field(path, value))
        for path, value in list_fields(make_plain(get(tree, "body")))
    ]
    header = get(tree, "header")
    header[:] = [(key, Members(fitting) if key == "digests" else value) for key, value in header]


def make_plain(tree: Any) -> Any:
    if isinstance(tree, Members):
        return {key: make_plain(value) for key, value in tree}
    return [make_plain(value) for value in tree] if isinstance(tree, list) else tree


def restyle(tree: Members, choose: random.Random) -> None:
    """Nothing: only the style of the text differs."""


MUTATIONS: tuple[Mutation, ...] = (
    add_member, remove_member, move_member, change_member, rename_member, swap_values,
    duplicate_member,
    hide_under_key, nest_value, flatten_object, split_name, retype_value, normalise_text,
    rearrange_list,
    respell_hex, change_version, forge_digests, restyle,
)  # fmt: skip
