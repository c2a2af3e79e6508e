"""The rules between the parts of a catalog: who owns what, who is protected, what refers to what.

Each rule is one function that lists its errors, each at the line of the offending part. That no
sum can leave exact integers needs no rule here: grid bounds and `max_rows` are both read as less
than 2^63, so a sum over a whole table stays below 2^126 < 10^38 - 1, the largest integer that
leaves an engine by Arrow (rule widths-from-catalog).
"""

from __future__ import annotations

from collections.abc import Iterator

from dither.catalog.columns import Category, Date, FromPublic, Id, Text, Timestamp
from dither.catalog.file.fields import did_you_mean
from dither.catalog.file.load_rules import check_rules
from dither.catalog.file.problems import Problems
from dither.catalog.model import Catalog, OwnerColumn, OwnerReference, Person, Table
from dither.catalog.owners import owner_names
from dither.errors import CatalogError


def check(catalog: Catalog, problems: Problems) -> None:
    """Note every rule that the catalog breaks. Owners are followed from table to table only where
    each table's own owner is sound."""
    is_sound = problems.add(_has_private_table(catalog))
    is_sound &= problems.add(_people_name_columns(catalog))
    is_sound &= problems.add(_check_owners(catalog))
    if is_sound:
        problems.add(_one_protected_owner_per_table(catalog))
        problems.add(_one_owner_key_in_all(catalog))
    problems.add(_ids_are_explained(catalog))
    problems.add(_check_windows(catalog))
    problems.add(_check_values_from_public_tables(catalog))
    problems.add(check_rules(catalog))


def _error(catalog: Catalog, message: str, line: int) -> CatalogError:
    return CatalogError(message, file=catalog.file, line=line)


def _has_private_table(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error where no table is private."""
    if not catalog.private_tables:
        line = catalog.tables[0].line if catalog.tables else 1
        yield _error(
            catalog, "tables: no table is private: without one there is nobody to protect", line
        )


def _people_name_columns(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each person whose key is no column, or cannot be protected."""
    names = {name for table in catalog.tables for name in table.column_names}
    for person in catalog.people:
        if person.key not in names:
            yield _error(
                catalog,
                f"people: '{person.key}' is not a column of any table: "
                f"{did_you_mean(person.key, sorted(names))}",
                person.line,
            )
        if person.protected:
            yield from _check_protected_columns(catalog, person)


def _check_protected_columns(catalog: Catalog, person: Person) -> Iterator[CatalogError]:
    """Yield an error for each column that names a protected person and must not as it is
    declared."""
    if catalog.unit.kind == "row":
        yield _error(
            catalog,
            f"people: {person.key} cannot be protected under {{kind: row}}, which hides one row "
            "and not a person: take {kind: person}, or say protected: false and why",
            person.line,
        )
        return
    for table in catalog.tables:
        for column in table.columns:
            if column.name.lower() != person.key.lower():
                continue
            if column.name != person.key:
                rule = (
                    f"differs from the protected key '{person.key}' in case only: "
                    "rename one of them"
                )
            elif table.kind == "public":
                rule = (
                    "a public table cannot list protected people: make the table "
                    "private, or leave the column out"
                )
            elif not isinstance(column, Id):
                rule = (
                    f"names a protected person, so its type is id and not {column.type}: "
                    "a name must never be selected or grouped by"
                )
            else:
                continue
            yield _error(catalog, f"column {table.name}.{column.name}: {rule}", column.line)


def _check_owners(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each private table whose owner or limit does not fit the unit."""
    for table in catalog.private_tables:
        if catalog.unit.kind == "row":
            if table.owner is not None:
                yield _error(
                    catalog,
                    f"table {table.name}: owner has no place under {{kind: row}}, where each row "
                    "stands for itself: remove it, or take {kind: person}",
                    table.owner.line,
                )
            if table.rows_per_unit != 1:
                yield _error(
                    catalog,
                    f"table {table.name}: rows_per_unit must be 1 under {{kind: row}}",
                    table.line,
                )
        elif table.owner is None:
            yield _error(
                catalog,
                f"table {table.name}: owner is missing: say whom a row belongs to: {{column: c}}, "
                "or {references: table, by: key} for the owner of another table's row",
                table.line,
            )
        elif isinstance(table.owner, OwnerColumn):
            yield from _check_owner_column(catalog, table, table.owner)
        else:
            yield from _check_owner_reference(catalog, table, table.owner)


def _check_owner_column(
    catalog: Catalog, table: Table, owner: OwnerColumn
) -> Iterator[CatalogError]:
    """Yield an error unless the owner column is an id, and listed as a protected person."""
    yield from _check_id_column(catalog, table, table, owner.column, owner.line)
    if not any(person.key == owner.column and person.protected for person in catalog.people):
        yield _error(
            catalog,
            f"table {table.name}: its owner '{owner.column}' must be listed under people with "
            "protected: true: the owner is whom the guarantee protects",
            owner.line,
        )


def _check_owner_reference(
    catalog: Catalog, table: Table, owner: OwnerReference
) -> Iterator[CatalogError]:
    """Check an owner reference: to another private table, by a unique key of ids, in no circle."""
    names = [candidate.name for candidate in catalog.private_tables if candidate is not table]
    if owner.references not in names:
        yield _error(
            catalog,
            f"table {table.name}: owner references '{owner.references}', which is not another "
            f"private table: {did_you_mean(owner.references, names)}",
            owner.line,
        )
        return
    parent = catalog.table(owner.references)
    for column, parent_column in owner.by:
        yield from _check_id_column(catalog, table, table, column, owner.line)
        yield from _check_id_column(catalog, table, parent, parent_column, owner.line)
    parent_columns = [parent_column for _, parent_column in owner.by]
    if not any(set(unique) <= set(parent_columns) for unique in parent.unique):
        unique_names = ", ".join(parent_columns)
        yield _error(
            catalog,
            f"table {table.name}: '{unique_names}' must be unique in {parent.name}, else a row "
            f"would have two owners: add [{unique_names}] to its unique keys",
            owner.line,
        )
    path = [table.name]
    step = parent
    while isinstance(step.owner, OwnerReference):
        path.append(step.name)
        if step.owner.references in path:
            yield _error(
                catalog,
                f"table {table.name}: its owner path goes in a circle "
                f"({' -> '.join([*path, step.owner.references])}): "
                "one table must have owner: {column: ...}",
                owner.line,
            )
            return
        if step.owner.references not in names:
            return  # reported at that table
        step = catalog.table(step.owner.references)


def _check_id_column(
    catalog: Catalog, table: Table, near_table: Table, name: str, line: int
) -> Iterator[CatalogError]:
    """Yield an error unless `name` is an id column of `near_table`."""
    ids = [column.name for column in near_table.columns if isinstance(column, Id)]
    if name not in ids:
        yield _error(
            catalog,
            f"table {table.name}: its owner is found by '{name}', which is not an id column of "
            f"{near_table.name}: {did_you_mean(name, ids)}",
            line,
        )


def _one_protected_owner_per_table(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each column that would give a row a second protected owner.

    Also for one that names the owner of the row, but is listed as not protected.
    """
    people = {person.key: person.protected for person in catalog.people}
    for table in catalog.private_tables:
        owner = catalog.owner_column(table)
        names = owner_names(catalog, table)
        for column in table.columns:
            if column.name in names and not people.get(column.name, True):
                yield _error(
                    catalog,
                    f"column {table.name}.{column.name}: it names the owner of the row, '{owner}', "
                    f"who is protected, "
                    f"and people says that {column.name} is not: write protected: true",
                    column.line,
                )
            if people.get(column.name) and column.name not in names:
                yield _error(
                    catalog,
                    f"column {table.name}.{column.name}: the row would have two protected owners, "
                    f"'{owner}' and '{column.name}', and no guarantee covers both: protect one and "
                    "say why the other needs none, or leave the column out",
                    column.line,
                )


def _one_owner_key_in_all(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each private table whose owner has another name than in the first."""
    first: Table | None = None
    for table in catalog.private_tables:
        first = first or table
        owner = catalog.owner_column(table)
        first_owner = catalog.owner_column(first)
        if owner != first_owner:
            yield _error(
                catalog,
                f"table {table.name}: it is owned by '{owner}' and table {first.name} by "
                f"'{first_owner}': one person "
                "would be two units; give the key one name at the source, or make two catalogs",
                table.owner.line if table.owner else table.line,
            )


def _ids_are_explained(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each id that is neither a person, a key, nor a reference."""
    people = {person.key for person in catalog.people}
    keys = {name for table in catalog.tables for key in table.unique for name in key}
    for table in catalog.private_tables:
        references = (
            {own_column for own_column, _ in table.owner.by}
            if isinstance(table.owner, OwnerReference)
            else set()
        )
        for column in table.columns:
            if isinstance(column, Id) and column.name not in people | keys | references:
                yield _error(
                    catalog,
                    f"column {table.name}.{column.name}: whom or what does this id name? List it "
                    f"under people if a "
                    "person, protected or not; or as a unique key of its table if a row",
                    column.line,
                )


def _check_windows(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each private table that lacks the column of the unit's windows."""
    unit = catalog.unit
    if unit.column is None:
        return
    for table in catalog.private_tables:
        column = table.column(unit.column) if unit.column in table.column_names else None
        if not isinstance(column, (Date, Timestamp)):
            yield _error(
                catalog,
                f"table {table.name}: the unit is a window of '{unit.column}', and this private "
                "table has no date or timestamp column of that name: add it, make the table "
                "public, or take {kind: person}",
                table.line,
            )
            continue
        if column.nulls.rule != "drop":
            yield _error(
                catalog,
                f"column {table.name}.{column.name}: a row without a time lies in no window: write "
                f"nulls: drop",
                column.line,
            )


def _check_values_from_public_tables(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each category whose list is no text column of a public table."""
    public = {table.name: table for table in catalog.tables if table.kind == "public"}
    for table in catalog.tables:
        for column in table.columns:
            if not isinstance(column, Category) or not isinstance(column.values, FromPublic):
                continue
            what = f"column {table.name}.{column.name}: values from"
            source = column.values
            if source.table not in public or source.table == table.name:
                other_tables = [name for name in public if name != table.name]
                yield _error(
                    catalog,
                    f"{what} '{source.table}', which is not another public table: "
                    f"{did_you_mean(source.table, other_tables)}",
                    source.line,
                )
                continue
            texts = [
                target.name
                for target in public[source.table].columns
                if isinstance(target, Text)
                or (isinstance(target, Category) and isinstance(target.values, tuple))
            ]
            if source.column not in texts:
                yield _error(
                    catalog,
                    f"{what} '{source.table}.{source.column}', which is not a text column or a "
                    f"category with a list: {did_you_mean(source.column, texts)}",
                    source.line,
                )
