"""What a person must decide, key by key, and why. Read by error messages; the reference page has
the same keys.

There is no default for anything here: a privacy parameter that nobody chose protects nobody.
"""

from __future__ import annotations

DECIDE: dict[str, dict[str, str]] = {
    "catalog": {
        "dither": "write `dither: 1`, the version of this format",
        "dataset": "name the dataset; results and certificates show it",
        "lineage": "name the data that the budget follows; a copy or update of the same data has "
        "the same lineage, since charges about the same people add up",
        "population": "name the people the data is about; reports add up the losses of "
        "all datasets of one population",
        "neighbours": "decide between add_remove (whether someone is in the data is hidden; the "
        "usual choice) and replace (only their values are hidden)",
        "unit": "decide whom the guarantee protects: {kind: person}, {kind: row} or {kind: "
        "person_window, ...}; a row is less than a person wherever a person has several rows",
        "people": "list every key that names a person, and say of each whether it is protected; "
        "whoever is not protected must be named too",
        "source": "say where the rows lie, such as {engine: csv, location: data}",
        "tables": "describe the tables, private and public",
    },
    "unit": {
        "kind": "decide whom the guarantee protects: person, row or person_window",
        "column": "name the date or timestamp column, present in every private table, "
        "that puts a row in its window",
        "one_row_is": "write person if no person can be in two rows; certificates say that "
        "it was asserted and not checked",
        "every": "decide the length of a window: day, week, month or year; a person active in W "
        "windows is protected W times less",
        "zone": "decide where a day begins: UTC or an offset such as +01:00; the border "
        "of a window must not move",
    },
    "person": {
        "protected": "decide true or false; a person who is not protected can be learned "
        "about from the answers",
        "because": "say why these people need no protection; the sentence is shown in "
        "every certificate",
    },
    "source": {
        "engine": "choose csv, parquet, duckdb, postgres or spark",
        "location": "write the folder or file, relative to the catalog",
        "delimiter": "csv: write the character between two fields, if it is not a comma",
        "quote": 'csv: write the character around a field, if it is not "',
        "null_texts": "csv: list the texts that stand for a null, such as ['?', NA]",
        "trim": "csv: write true if blanks around names and values are not part of them",
    },
    "table": {
        "kind": "decide private (rows about people) or public (known to everybody "
        "already, shown without noise)",
        "from": "write the name of the file or table at the source",
        "owner": "say whom a row belongs to: {column: c}, or {references: table, by: key} for the "
        "owner of another table's row",
        "unique": "list the keys that are unique, such as [[visit_id]], or write [] if there are "
        "none; registration enforces them per owner",
        "rows_per_unit": "decide how many rows of one unit may count; noise grows with it, "
        "and rows beyond it are left out",
        "max_rows": "state a number that the rows of this table will never pass; widths of sums "
        "follow from it, and registration stops beyond it",
        "columns": "describe the columns; what is not described is not read",
        "rules": "list what every row meets by public knowledge, each with its provenance; rows "
        "that break one are dropped",
    },
    "rule": {
        "rule": "compare two columns of one type, such as ended >= begun",
        "never": "write values that never stand together, such as {sex: m, pregnant: true}",
        "column": "name the column that is determined by another",
        "follows": "name the column that determines it",
        "values": "map the values of the column in follows to those of the other",
        "provenance": "say how this is known without the data; a rule read off the rows leaks them",
    },
    "owner": {
        "column": "name the id column that holds the person",
        "references": "name the private table whose owner this row shares",
        "by": "name the id column that both tables have, unique in the other one; where the names "
        "differ write {column here: column there}",
    },
    "column": {
        "type": "choose id, integer, decimal, boolean, category, date, timestamp or text",
        "bounds": "decide [lower, upper] from what is publicly known, never from the data: values "
        "outside are moved to the nearest bound, and the noise of a sum grows with the larger one",
        "provenance": "say where the bounds come from; bounds read off the data leak the "
        "rows that made them",
        "resolution": "decide the step to which values are rounded: 1, 0.1, 0.01, ... or "
        "an integer such as 100",
        "nulls": "decide what becomes of a null: keep, drop (the row) or {value: v}",
        "values": "decide the labels from what is publicly known: a list, {from: "
        "table.column} of a public table, "
        "or undeclared (shown only where enough people share a label, which costs budget)",
        "other": "decide what becomes of a value outside the list: keep (shown as "
        "'other') or drop (the row)",
        "width": "decide how many characters are kept; the work one row can cause is bounded by it",
        "zone": "decide the offset at which times are read: UTC or an offset such as +01:00",
        "from": "write the column's name at the source, if it is another",
    },
}

COLUMN_KEYS: dict[str, tuple[str, ...]] = {
    "id": ("type", "from"),
    "integer": ("type", "bounds", "nulls", "provenance", "from"),
    "decimal": ("type", "bounds", "resolution", "nulls", "provenance", "from"),
    "boolean": ("type", "nulls", "from"),
    "category": ("type", "values", "other", "width", "nulls", "from"),
    "date": ("type", "bounds", "nulls", "provenance", "from"),
    "timestamp": ("type", "bounds", "zone", "nulls", "provenance", "from"),
    "text": ("type", "width", "nulls", "from"),
}
