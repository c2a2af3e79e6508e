"""Questions about the small clinic that a grammar makes, and questions that were damaged after.

Half of them are plain ones, which are mostly answered. The others have most of what SQL can write,
whether dither has it or not. `make_question` takes a generator of numbers: a seed is a question.
"""

from __future__ import annotations

from random import Random

NUMBERS = ["age", "score", "cost", "weight"]
KEYS = ["ward", "kind", "urgent", "day"]
COLUMNS = [*NUMBERS, *KEYS, "patient", "visit", "visits.age", "v.ward", "missing"]
LITERALS = [
    *("0", "1", "-1", "3.5", "1e3", "1e400", "9" * 40, "'north'", "'o''clock'", "''", "NULL"),
    *("TRUE", "DATE '2024-05-01'", "DATE '2024-13-01'", "INTERVAL 1 DAY", "$1", "?", ":name"),
]
OPERATORS = ["+", "-", "*", "/", "%", "||", "=", "<>", "<", ">=", "AND", "OR", "IS", "LIKE", "^"]
FUNCTIONS = [
    *("ABS", "ROUND", "LOWER", "LENGTH", "COALESCE", "SQRT", "EXTRACT", "DATE_TRUNC", "LEAST"),
    *("RANDOM", "NOW", "PG_SLEEP", "READ_CSV", "NULLIF", "CONCAT", "GREATEST", "EXP", "LN"),
]
AGGREGATES = [
    *("COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "STDDEV", "VARIANCE", "COUNT_IF", "MODE"),
    *("QUANTILE_CONT", "STRING_AGG", "ARRAY_AGG", "CORR", "ANY_VALUE", "APPROX_COUNT_DISTINCT"),
]
JUNK = [
    *("(", ")", ",", ";", "--", "/*", "*/", "'", '"', "\\", "\x00", "\u202e", "é", "𝟙", "SELECT"),
    *("FROM", "WHERE", "GROUP BY", "OVER", "EXPLAIN PRIVACY", "WITH", "AS", "1/0", "\n", "%s"),
]
DEEPEST = 4


def make_question(random: Random) -> str:
    """One question; every third one is damaged."""
    text = _write_plain(random) if random.random() < 0.5 else _write_select(random, 0)
    return _damage(random, text) if random.random() < 1 / 3 else text


def _write_plain(random: Random) -> str:
    """Counts, sums and the like by groups, of rows that a comparison chooses."""
    keys = random.sample(KEYS[:3], random.choice([0, 1, 1, 2]))
    names = random.sample(AGGREGATES[:8], random.randint(1, 3))
    outputs = [
        f"{name}({random.choice(NUMBERS)}) AS x{number}" for number, name in enumerate(names)
    ]
    text = f"SELECT {', '.join([*keys, *outputs])} FROM visits"
    if random.random() < 0.5:
        comparison = random.choice(["<", ">=", "=", "<>"])
        text += f" WHERE {random.choice(NUMBERS)} {comparison} {random.randint(-10, 100)}"
    if keys:
        text += " GROUP BY " + ", ".join(keys)
    if random.random() < 0.2:
        text += " ORDER BY x0 LIMIT 3"
    return text


def _write_select(random: Random, depth: int) -> str:
    """A SELECT with some of its clauses."""
    keys = random.sample(KEYS, random.choice([0, 0, 1, 1, 2]))
    outputs = [*keys, *(_write_output(random, depth) for _ in range(random.randint(1, 3)))]
    lines = [
        "SELECT " + random.choice(["", "", "", "DISTINCT ", "ALL "]) + ", ".join(outputs),
        "FROM " + _write_source(random, depth),
    ]
    if random.random() < 0.5:
        lines.append("WHERE " + _write_expression(random, depth))
    if keys and random.random() < 0.9:
        lines.append("GROUP BY " + random.choice(["", "", "", "ROLLUP "]) + ", ".join(keys))
    if random.random() < 0.15:
        lines.append("HAVING " + _write_aggregate(random, depth) + " > 10")
    if random.random() < 0.15:
        lines.append(f"ORDER BY {random.choice(['1', 'n', *KEYS])} DESC")
    if random.random() < 0.1:
        lines.append(f"LIMIT {random.choice(['1', '10', '0', '-1', '1e9'])}")
    text = " ".join(lines)
    if depth < DEEPEST and random.random() < 0.05:
        word = random.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
        text = f"{text} {word} {_write_select(random, depth + 1)}"
    if depth == 0 and random.random() < 0.1:
        text = f"WITH t AS ({_write_select(random, depth + 1)}) {text}"
    return text


def _write_output(random: Random, depth: int) -> str:
    shape = random.random()
    if shape < 0.7:
        text = _write_aggregate(random, depth)
    elif shape < 0.9:
        text = f"{_write_aggregate(random, depth)} {random.choice('+-*/')} " + random.choice(
            [_write_aggregate(random, depth), random.choice(LITERALS)]
        )
    else:
        text = _write_expression(random, depth)
    return text + random.choice(["", "", " AS n", " AS n", ' AS "a b"', " AS ward"])


def _write_aggregate(random: Random, depth: int) -> str:
    if random.random() < 0.3:
        return "COUNT(*)"
    name = random.choice(AGGREGATES)
    distinct = "DISTINCT " if random.random() < 0.15 else ""
    text = f"{name}({distinct}{_write_expression(random, depth + 1)})"
    if random.random() < 0.05:
        text += " FILTER (WHERE " + _write_expression(random, depth + 1) + ")"
    if random.random() < 0.05:
        text += f" OVER (PARTITION BY {random.choice(COLUMNS)})"
    return text


def _write_expression(random: Random, depth: int) -> str:
    if depth >= DEEPEST or random.random() < 0.4:
        return random.choice([*COLUMNS, *LITERALS])
    shape = random.randrange(8)
    first = _write_expression(random, depth + 1)
    second = _write_expression(random, depth + 1)
    if shape < 3:
        return f"({first} {random.choice(OPERATORS)} {second})"
    if shape == 3:
        return f"{random.choice(FUNCTIONS)}({first}, {second})"
    if shape == 4:
        return f"CASE WHEN {first} THEN {second} ELSE {random.choice(LITERALS)} END"
    if shape == 5:
        return f"CAST({first} AS {random.choice(['INT', 'TEXT', 'DATE', 'DECIMAL(5,2)', 'X'])})"
    if shape == 6:
        return f"{first} BETWEEN {second} AND {random.choice(LITERALS)}"
    if random.random() < 0.3:
        return f"{first} IN ({_write_select(random, depth + 2)})"
    return f"{first} IN ({second}, {random.choice(LITERALS)})"


def _write_source(random: Random, depth: int) -> str:
    shape = random.random()
    if shape < 0.7 or depth >= DEEPEST:
        return random.choice(["visits", "visits", "visits", "visits v", "t", "pg_tables"])
    if shape < 0.85:
        return f"({_write_select(random, depth + 1)}) AS v"
    word = random.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "CROSS JOIN", ","])
    condition = "" if word in ("CROSS JOIN", ",") else " ON v.patient = w.patient"
    return f"visits v {word} visits w{condition}"


def _damage(random: Random, text: str) -> str:
    """A text with words lost, doubled, exchanged, or replaced by others."""
    words = text.split(" ")
    for _ in range(random.randint(1, 4)):
        position = random.randrange(len(words))
        act = random.randrange(5)
        if act == 0 and len(words) > 1:
            del words[position]
        elif act == 1:
            words.insert(position, words[random.randrange(len(words))])
        elif act == 2:
            words[position] = random.choice(JUNK)
        elif act == 3:
            words.insert(position, random.choice(JUNK))
        else:
            word = words[position]
            words[position] = word[: random.randrange(len(word) + 1)]
    return " ".join(words)
