"""Catalogs from what people already have.

It reads SmartNoise metadata, Snowflake privacy domains and dbt schemas.

What the other format says is taken over; what our catalog needs and the other does not say stands
as `???`, with a comment on what to decide. Nothing is guessed, and nothing that loosens a guarantee
(limits not enforced, keys not thresholded) is taken over: it is named in a comment.

>>> text = "'': {clinic: {visits: {max_ids: 2, patient: {private_id: true}}}}"
>>> print(import_catalog("smartnoise", text).splitlines()[6])
people: {patient: {protected: true}}
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from dither.catalog import scalars
from dither.catalog.file.tree import MAX_CHARACTERS
from dither.errors import CatalogError

KINDS = ("smartnoise", "snowflake", "dbt")
_UNKNOWN = "???"
_TYPES = {
    **dict.fromkeys(
        ("int", "integer", "bigint", "smallint", "tinyint", "int64", "number(38,0)"), "integer"
    ),
    **dict.fromkeys(
        ("float", "double", "real", "decimal", "numeric", "number", "float64"), "decimal"
    ),
    **dict.fromkeys(("string", "text", "varchar", "char"), "category"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(
        ("datetime", "timestamp", "timestamp_ntz", "timestamp_tz", "timestamp_ltz"), "timestamp"
    ),
    "date": "date",
}
_LOOSER = {
    "sample_max_ids": ("false", "limits of rows per person are always enforced here"),
    "censor_dims": ("false", "keys without a list always go through private key selection here"),
    "clamp_columns": ("false", "values are always clamped to their bounds here"),
    "clamp_counts": (
        "true",
        "noisy counts are shown as they are; nonnegative() is a labelled view",
    ),
}


@dataclass
class _Column:
    name: str
    kind: str | None = None
    is_id: bool = False
    low: str | None = None
    high: str | None = None
    values: list[str] | None = None
    listed_in: str | None = None
    nulls: str = _UNKNOWN
    notes: list[str] = field(default_factory=list)


@dataclass
class _Table:
    name: str
    columns: dict[str, _Column] = field(default_factory=dict)
    owner: str | None = None
    references: tuple[str, str] | None = None
    unique: list[str] = field(default_factory=list)
    rows_per_unit: str = _UNKNOWN
    notes: list[str] = field(default_factory=list)

    def column(self, name: str) -> _Column:
        return self.columns.setdefault(name, _Column(name))


def import_catalog(kind: str, text: str, file: str = "the file") -> str:
    """Write a catalog in our format from another's file, with ??? where a person must decide."""
    if kind not in KINDS:
        raise CatalogError(
            f"catalogs are imported from {', '.join(KINDS)}, not {kind!r}", file=file, line=1
        )
    if len(text) > MAX_CHARACTERS:
        raise CatalogError(
            f"the file has more than {MAX_CHARACTERS:,} characters: describe fewer tables",
            file=file,
        )
    if kind == "snowflake":
        tables = _read_snowflake(text, file)
    else:
        try:
            tree = yaml.load(text, yaml.BaseLoader)
        except RecursionError:
            raise CatalogError(
                "nested too deeply: describe tables and columns only", file=file
            ) from None
        except yaml.YAMLError as error:
            raise CatalogError(
                f"not YAML: {str(error).splitlines()[0]}", file=file, line=1
            ) from None
        tables = _read_smartnoise(tree, file) if kind == "smartnoise" else _read_dbt(tree, file)
    if not tables:
        raise CatalogError(f"no table is described in this {kind} file", file=file, line=1)
    return _write_catalog(tables)


def _write_catalog(tables: list[_Table]) -> str:
    """Write the YAML of a draft, with ??? wherever a person must decide."""
    owners = sorted({table.owner for table in tables if table.owner})
    is_row_unit = all(table.owner is None for table in tables) and any(
        "row_privacy" in note for described in tables for note in described.notes
    )
    unit = "row" if is_row_unit else "person" if owners else _UNKNOWN
    people = ", ".join(f"{owner}: {{protected: true}}" for owner in owners)
    lines = [
        "dither: 1",
        f"dataset: {_UNKNOWN}            # a short name",
        f"lineage: {_UNKNOWN}            # the data that the budget follows",
        f"population: {_UNKNOWN}         # the people the data is about",
        f"neighbours: {_UNKNOWN}         # add_remove | replace",
        f"unit: {{kind: {unit}}}       # person | row | person_window: check it, the guarantee "
        f"speaks of it",
        f"people: {{{people}}}"
        if people
        else "people: {}"
        if is_row_unit
        else f"people: {_UNKNOWN}",
        f"source: {{engine: {_UNKNOWN}, location: {_UNKNOWN}}}   # csv | parquet | duckdb",
        "tables:",
    ]
    for table in tables:
        lines += [f"  {table.name}:", *(f"    # {_fold_note(note)}" for note in table.notes)]
        owner = f"{{column: {table.owner}}}" if table.owner else None
        if table.references and not owner:
            owner = f"{{references: {table.references[0]}, by: {table.references[1]}}}"
        lines += [
            f"    kind: {'private' if owner or is_row_unit else _UNKNOWN}",
            f"    from: {_UNKNOWN}           # the file or table it is read from",
            *([] if is_row_unit else [f"    owner: {owner or _UNKNOWN}"]),
            f"    unique: [{', '.join(f'[{name}]' for name in table.unique)}]",
            f"    rows_per_unit: {'1' if is_row_unit else table.rows_per_unit}",
            f"    max_rows: {_UNKNOWN}       # a round number with room to grow, that does not "
            f"follow the data",
            "    columns:",
        ]
        for column in table.columns.values():
            lines += [f"      # {column.name}: {_fold_note(note)}" for note in column.notes]
            lines.append(f"      {column.name}: {{{', '.join(_write_keys(column))}}}")
    return "\n".join(lines) + "\n"


def _write_keys(column: _Column) -> list[str]:
    """Write the keys of one column in the order of the catalog's format."""
    if column.is_id:
        return ["type: id"]
    bounds = f"bounds: [{_write_scalar(column.low)}, {_write_scalar(column.high)}]"
    rest = [f"nulls: {column.nulls}", f"provenance: {_UNKNOWN}"]
    match column.kind:
        case "integer":
            return ["type: integer", bounds, *rest]
        case "decimal":
            return ["type: decimal", bounds, f"resolution: {_UNKNOWN}", *rest]
        case "date":
            return ["type: date", bounds, *rest]
        case "timestamp":
            return ["type: timestamp", bounds, f"zone: {_UNKNOWN}", *rest]
        case "boolean":
            return ["type: boolean", f"nulls: {column.nulls}"]
        case "category":
            if column.listed_in:
                values = f"{{from: {column.listed_in}}}"
            elif column.values:
                values = "[" + ", ".join(_write_scalar(value) for value in column.values) + "]"
            else:
                values = _UNKNOWN
            return [
                "type: category",
                f"values: {values}",
                f"other: {_UNKNOWN}",
                f"nulls: {column.nulls}",
            ]
    return [f"type: {_UNKNOWN}"]


def _write_scalar(value: str | None) -> str:
    """Write a value as YAML, quoted where it must be; ??? where it is not known."""
    if value is None:
        return _UNKNOWN
    plain = re.fullmatch(r"[\w.+:-]+(?: [\w.+:-]+)*", value)
    return (
        value
        if (plain and not value.startswith(("-", "+"))) or re.fullmatch(r"[-+]?[\d.]+", value)
        else _quote(value)
    )


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a double-quoted YAML scalar on one line


def _fold_note(note: str) -> str:
    """A comment stays on its line, whatever the other file held."""
    return re.sub(r"\s+", " ", note)[:200]


def _check_name(name: str, file: str) -> str:
    if not scalars.is_name(name):
        raise CatalogError(
            f"{name!r} is no name that SQL takes: rename it at the source", file=file, line=1
        )
    return name


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "yes", "1")


def _read_smartnoise(tree: Any, file: str) -> list[_Table]:
    """Read SmartNoise metadata: database, schema, table, columns beside settings."""
    tables = []
    for schemas in _list_mappings(tree, file):
        for schema in _list_mappings(schemas, file):
            for name, body in schema.items():
                if not isinstance(body, dict):
                    raise CatalogError(
                        f"{name} has no columns: SmartNoise metadata nests four deep",
                        file=file,
                        line=1,
                    )
                tables.append(_read_smartnoise_table(_check_name(name, file), body, file))
    return tables


def _list_mappings(tree: Any, file: str) -> list[dict[str, Any]]:
    if not isinstance(tree, dict) or not all(isinstance(value, dict) for value in tree.values()):
        message = "SmartNoise metadata is database: schema: table: columns, four deep"
        raise CatalogError(message, file=file, line=1)
    return list(tree.values())


def _read_smartnoise_table(name: str, body: dict[str, Any], file: str) -> _Table:
    """Read one table of SmartNoise metadata; what is not taken over becomes a note."""
    table = _Table(name)
    for key, value in body.items():
        if isinstance(value, dict):
            column = table.column(_check_name(key, file))
            column.is_id = _is_true(value.get("private_id"))
            column.kind = _TYPES.get(str(value.get("type", "")).lower())
            column.low = value.get("lower")
            column.high = value.get("upper")
            if "missing_value" in value:
                column.nulls = f"{{value: {_write_scalar(str(value['missing_value']))}}}"
            if "sensitivity" in value:
                column.notes.append(
                    "a stated sensitivity is not taken over: it follows from bounds and limits"
                )
            if "cardinality" in value:
                column.notes.append(
                    f"cardinality {value['cardinality']}: list the labels, or write values: "
                    f"undeclared"
                )
            if column.is_id:
                table.owner = key
        elif key == "max_ids":
            table.rows_per_unit = str(value)
        elif key == "row_privacy":
            if _is_true(value):
                table.notes.append(
                    "row_privacy: each row is a unit; a person with k rows gets k times the epsilon"
                )
        elif key == "rows":
            table.notes.append(
                f"rows: {value} was stated as public; the number of rows is protected here"
            )
        elif key in _LOOSER:
            unsafe, why = _LOOSER[key]
            if str(value).lower() == unsafe:
                table.notes.append(f"{key}: {value} is not taken over: {why}")
        else:
            table.notes.append(f"{key}: {value} is not taken over: it has no counterpart here")
    return table


def _read_dbt(tree: Any, file: str) -> list[_Table]:
    """Read the models or sources of a dbt schema.

    Privacy domains and the entity key are in `meta`, labels in accepted_values.
    """
    if not isinstance(tree, dict):
        raise CatalogError("a dbt schema has models: or sources: at the top", file=file, line=1)
    models = list(tree.get("models") or [])
    for source in tree.get("sources") or []:
        models += source.get("tables") or []
    tables = []
    for model in models:
        table = _Table(_check_name(model["name"], file))
        meta = {**(model.get("meta") or {}), **((model.get("config") or {}).get("meta") or {})}
        table.owner = meta.get("entity_key") or meta.get("privacy_unit")
        for description in model.get("columns") or []:
            _read_dbt_column(table, description, file)
        tables.append(table)
    return tables


def _read_dbt_column(table: _Table, description: dict[str, Any], file: str) -> None:
    """Read one column of a dbt model into `table`: type, privacy domain, and what its tests say."""
    column = table.column(_check_name(description["name"], file))
    column.kind = _TYPES.get(str(description.get("data_type", "")).lower().split("(")[0])
    meta = {
        **(description.get("meta") or {}),
        **((description.get("config") or {}).get("meta") or {}),
    }
    column.is_id = column.name == table.owner
    domain = meta.get("privacy_domain") or {}
    if "between" in domain:
        column.low, column.high = domain["between"]
        column.kind = column.kind or "integer"
    if "in" in domain:
        column.values = list(domain["in"])
        column.kind = "category"
    for test in [*(description.get("tests") or []), *(description.get("data_tests") or [])]:
        if test == "unique":
            table.unique.append(column.name)
        if test == "not_null" and column.nulls == _UNKNOWN:
            column.nulls = "drop"
        if isinstance(test, dict) and "accepted_values" in test:
            column.values = list(test["accepted_values"].get("values", []))
            column.kind = "category"
        if isinstance(test, dict) and "relationships" in test:
            parent = re.search(r"['\"](\w+)['\"]\s*\)", str(test["relationships"].get("to", "")))
            if parent:
                table.references = (parent[1], column.name)
                column.is_id = True


_WORD = r'"?(?:\w+"?\."?)*(\w+)"?'
_ALTER = re.compile(
    rf"\b(?:ALTER|CREATE(?:\s+OR\s+REPLACE)?)\s+(?:TABLE|VIEW)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?{_WORD}",
    re.I,
)
_DOMAIN = re.compile(
    r'"?(\w+)"?\s+(?:(?!COLUMN\b|SET\b)(\w+)(?:\s*\([\d,\s]*\))?\s+|(?:SET\s+))?(?:NOT\s+NULL\s+)?PRIVACY\s+DOMAIN\s+'
    rf"(?:BETWEEN\s*\(([^()]*)\)|IN\s*\(([^()]*)\)|REFERENCES\s+{_WORD}\s*\(\s*\"?(\w+)\"?\s*\))",
    re.I,
)
_ENTITY = re.compile(r"\bPRIVACY\s+POLICY\s+\S+\s+ENTITY\s+KEY\s*\(([^()]*)\)", re.I)
_ITEM = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,']+?))\s*(?:,|$)")


def _read_snowflake(text: str, file: str) -> list[_Table]:
    """Read the PRIVACY DOMAIN and ENTITY KEY of CREATE and ALTER statements, and nothing else."""
    tables: dict[str, _Table] = {}
    for statement in re.sub(r"--[^\n]*", "", text).split(";"):
        altered = _ALTER.search(statement)
        if not altered:
            continue
        name = _check_name(altered[1].lower(), file)
        table = tables.setdefault(name, _Table(name))
        if entity := _ENTITY.search(statement):
            keys = _split_list(entity[1])
            if len(keys) != 1:
                raise CatalogError(
                    f"{name}: an entity of {len(keys)} columns; dither owns rows by one",
                    file=file,
                    line=1,
                )
            table.owner = keys[0].lower()
            table.column(table.owner).is_id = True
        for column_name, kind, between, members, parent, parent_column in _DOMAIN.findall(
            statement
        ):
            column = table.column(_check_name(column_name.lower(), file))
            column.kind = _TYPES.get(kind.lower()) if kind else column.kind
            if between:
                ends = _split_list(between)
                column.low, column.high = [*ends, _UNKNOWN, _UNKNOWN][:2]
                column.kind = column.kind or ("decimal" if "." in between else "integer")
            elif members:
                column.values = _split_list(members)
                column.kind = "category"
            else:
                column.listed_in = f"{parent.lower()}.{parent_column.lower()}"
                column.kind = "category"
                column.notes.append(
                    "its list is a public table: declare that table with kind: public"
                )
    return list(tables.values())


def _split_list(text: str) -> list[str]:
    """Split a list of SQL literals into texts."""
    return [
        quoted.replace("''", "'") if quoted or not plain else plain
        for quoted, plain in _ITEM.findall(text)
        if quoted or plain
    ]
