"""Signatures of public names as the reference pages show them, in the way of a stub file.

A page says where they belong by a comment and a block of code after it:

    <!-- signatures: dither.steward.register dither.steward.Registration -->
    ```py
    ...
    ```

The name of a module stands for all that it lists in `__all__`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any, ForwardRef

WIDTH = 100
BLOCK = re.compile(
    r"^(?P<opening><!-- signatures: (?P<names>[\w. \n]+?) -->\n+```py\n).*?^```$",
    re.DOTALL | re.MULTILINE,
)


def find_object(name: str) -> Any:
    """The module, or the attribute of a module, that a dotted name means."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


def list_objects(names: str) -> Iterator[tuple[str, Any]]:
    """The objects that a comment names, with their short names."""
    for name in names.split():
        subject = find_object(name)
        if isinstance(subject, ModuleType):
            yield from ((public, getattr(subject, public)) for public in subject.__all__)
        else:
            yield name.rpartition(".")[2], subject


def write_annotation(annotation: Any) -> str:
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def write_default(value: Any) -> str:
    """A default as it is written in code; what has no such text is `...`."""
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return "..." if "<" in text or len(text) > 40 else text


def write_parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {write_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {write_default(parameter.default)}"
    return text


def list_parameters(function: Any) -> Iterator[str]:
    """The parameters of a function, without `self`; a star before those that need a name."""
    parameters = list(inspect.signature(function).parameters.values())
    stars_needed = not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    for index, parameter in enumerate(parameters):
        if index == 0 and parameter.name in ("self", "cls"):
            continue
        if stars_needed and parameter.kind is parameter.KEYWORD_ONLY:
            stars_needed = False
            yield "*"
        yield write_parameter(parameter)


def write_comment(subject: Any, indent: str) -> list[str]:
    """The first sentence of a docstring."""
    text = inspect.getdoc(subject) or ""
    sentence = re.split(r"\n\s*\n|(?<=[.])\s(?=[A-Z`])", text, maxsplit=1)[0]
    prefix = f"{indent}# "
    return textwrap.wrap(
        sentence,
        WIDTH,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_on_hyphens=False,
    )


def write_function(name: str, function: Any, indent: str = "") -> list[str]:
    """The comment and the signature of a function, folded at the width of a page."""
    returned = inspect.signature(function).return_annotation
    is_shown = returned is not inspect.Signature.empty and name != "__init__"
    arrow = f" -> {write_annotation(returned)}" if is_shown else ""
    parameters = list(list_parameters(function))
    line = f"{indent}def {name}({', '.join(parameters)}){arrow}: ..."
    comment = [] if name == "__init__" else write_comment(function, indent)
    if len(line) <= WIDTH:
        return [*comment, line]
    inner = f"{indent}    "
    folded = fold_parameters([f"{parameter}," for parameter in parameters], inner)
    return [*comment, f"{indent}def {name}(", *folded, f"{indent}){arrow}: ..."]


def fold_parameters(parameters: list[str], indent: str) -> list[str]:
    """Lines of whole parameters, as many to a line as it can hold."""
    lines: list[str] = []
    for parameter in parameters:
        if lines and len(lines[-1]) + len(parameter) < WIDTH:
            lines[-1] += f" {parameter}"
        else:
            lines.append(indent + parameter)
    return lines


def list_members(subject: type, listed_elsewhere: set[type]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class that no base with an entry of its own has."""
    names = {name for base in subject.__mro__ if base in listed_elsewhere for name in dir(base)}
    for base in subject.__mro__:
        if not base.__module__.startswith("dither"):
            continue
        for name, member in vars(base).items():
            is_member = inspect.isroutine(member) or isinstance(member, (property, cached_property))
            if type(member).__module__.startswith("sklearn"):  # written into every estimator
                continue
            if is_member and not name.startswith("_") and name not in names:
                names.add(name)
                yield name, member


def write_member(name: str, member: Any) -> list[str]:
    indent = "    "
    if isinstance(member, property) and member.fget is not None:
        kind = write_annotation(inspect.signature(member.fget).return_annotation)
        return [*write_comment(member.fget, indent), f"{indent}{name}: {kind}"]
    if isinstance(member, cached_property):
        kind = write_annotation(inspect.signature(member.func).return_annotation)
        return [*write_comment(member.func, indent), f"{indent}{name}: {kind}"]
    if isinstance(member, (classmethod, staticmethod)):
        decorator = f"{indent}@{type(member).__name__}"
        lines = write_function(name, member.__func__, indent)
        comments = sum(line.startswith(f"{indent}#") for line in lines)
        return [*lines[:comments], decorator, *lines[comments:]]
    return write_function(name, member, indent)


def list_fields(subject: type) -> Iterator[str]:
    """The public fields of a dataclass or a named tuple, with types and defaults."""
    if dataclasses.is_dataclass(subject):
        for field in dataclasses.fields(subject):
            if field.name.startswith("_") or not field.init:
                continue
            line = f"    {field.name}: {write_annotation(field.type)}"
            has_default = field.default is not dataclasses.MISSING
            yield f"{line} = {write_default(field.default)}" if has_default else line
    elif hasattr(subject, "_fields"):
        annotations: dict[str, Any] = {}
        for base in subject.__mro__:
            annotations |= inspect.get_annotations(base)
        for name in subject._fields:
            yield f"    {name}: {write_annotation(annotations[name])}"


def has_constructor(subject: type) -> bool:
    """Whether its constructor says more than its fields: some need a name, or some are computed."""
    if not dataclasses.is_dataclass(subject):
        bases = [base for base in subject.__mro__ if base.__name__.startswith("_")]
        return any("__init__" in vars(base) for base in (subject, *bases))
    parameters = inspect.signature(subject).parameters.values()
    fields = [field.name for field in dataclasses.fields(subject)]
    is_public = all(not parameter.name.startswith("_") for parameter in parameters)
    needs_names = any(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    return is_public and (needs_names or [parameter.name for parameter in parameters] != fields)


def write_class(name: str, subject: type, listed_elsewhere: set[type]) -> list[str]:
    lines = [*write_comment(subject, ""), f"class {name}:"]
    if has_constructor(subject):
        lines += write_function("__init__", subject.__init__, "    ")
    else:
        lines += list_fields(subject)
    for member_name, member in list_members(subject, listed_elsewhere):
        lines += write_member(member_name, member)
    return lines if lines[-1] != f"class {name}:" else [*lines[:-1], f"class {name}: ..."]


def write_signatures(names: str) -> str:
    """The block of code for the names of one comment."""
    subjects = list(list_objects(names))
    classes = {subject for _, subject in subjects if inspect.isclass(subject)}
    entries = []
    for name, subject in subjects:
        if inspect.isclass(subject):
            entries.append(write_class(name, subject, classes - {subject}))
        elif callable(subject):
            entries.append(write_function(name, subject))
        else:
            entries.append([f"{name}: {type(subject).__name__}"])
    return "\n\n".join("\n".join(lines) for lines in entries) + "\n"


def rewrite_signatures(text: str) -> str:
    """A page's text with every block of signatures written anew."""
    return BLOCK.sub(lambda match: f"{match['opening']}{write_signatures(match['names'])}```", text)
