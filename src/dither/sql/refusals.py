"""What is refused, why, and what to write instead. One table, read by errors, by the reference page and by the tests.

`example` is a question about the clinic of the reference page that is refused so; `rewrite` is one that is answered.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """One row of the table."""

    what: str
    why: str
    instead: str
    rule: str
    example: str
    rewrite: str

    @property
    def message(self) -> str:
        return f"{self.what}: {self.why}. Instead: {self.instead} [rule: {self.rule}]"


_OWNER = "no row meets another owner's row"
_ONE = "every row has one owner"
_ALLOW = "what has no rule is refused"
_ORDER = "inside a person rows are a set"

REFUSALS: dict[str, Refusal] = {
    "comma join": Refusal(
        "tables with a comma between them",
        "a join needs its condition beside it",
        "write a JOIN b ON a.patient_id = b.patient_id",
        _OWNER,
        "SELECT COUNT(*) FROM patients p, visits v WHERE p.patient_id = v.patient_id",
        "SELECT COUNT(*) FROM patients p JOIN visits v ON p.patient_id = v.patient_id",
    ),
    "natural join": Refusal(
        "NATURAL JOIN",
        "its condition changes whenever a column is added",
        "name the columns with USING (...) or ON",
        _OWNER,
        "SELECT COUNT(*) FROM visits NATURAL JOIN patients",
        "SELECT COUNT(*) FROM visits JOIN patients USING (patient_id)",
    ),
    "cross join": Refusal(
        "CROSS JOIN",
        "it pairs the rows of different people",
        "join on the owner, or a public table by its key",
        _OWNER,
        "SELECT COUNT(*) FROM visits CROSS JOIN counties",
        "SELECT COUNT(*) FROM visits JOIN counties USING (county)",
    ),
    "full join": Refusal(
        "FULL JOIN",
        "rows of one side without a match would have no owner, or come and go with other people's rows",
        "LEFT JOIN with the private side first",
        _ONE,
        "SELECT COUNT(*) FROM visits v FULL JOIN counties c ON v.county = c.county",
        "SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county",
    ),
    "public preserved": Refusal(
        "a join that keeps the rows of a public table",
        "public rows without a match have no owner, and would vanish when somebody joins",
        "put the private table first; to list every public key, GROUP BY a column of the public table and count a "
        "column of the private one",
        _ONE,
        "SELECT COUNT(v.cost) FROM counties c LEFT JOIN visits v ON c.county = v.county",
        "SELECT c.county, COUNT(v.cost) FROM counties c LEFT JOIN visits v ON c.county = v.county GROUP BY c.county",
    ),
    "public count": Refusal(
        "COUNT(*) over a public table LEFT JOIN a private one",
        "it counts one row for a public key that nobody has",
        "count a column of the private table, as in COUNT(v.visit_id)",
        _ONE,
        "SELECT c.county, COUNT(*) FROM counties c LEFT JOIN visits v ON c.county = v.county GROUP BY c.county",
        "SELECT c.county, COUNT(v.visit_id) FROM counties c LEFT JOIN visits v ON c.county = v.county "
        "GROUP BY c.county",
    ),
    "join without owner": Refusal(
        "a join of two private tables that does not say that both rows have the same owner",
        "rows of different people would meet",
        "add AND a.patient_id = b.patient_id (or join by the foreign key that leads to the owner)",
        _OWNER,
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.date = b.date",
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.date = b.date",
    ),
    "join condition": Refusal(
        "a join by something else than equalities joined with AND",
        "how many rows one person can get would not be bounded",
        "join by a.x = b.x, and put other conditions in WHERE or in a subquery of the right side",
        _OWNER,
        "SELECT COUNT(*) FROM visits v JOIN counties c ON v.county = c.county OR c.beds > 5",
        "SELECT COUNT(*) FROM visits v JOIN counties c ON v.county = c.county WHERE c.beds > 5",
    ),
    "left condition": Refusal(
        "a condition on the left side, or on both, in the ON of a LEFT JOIN",
        "the left side keeps all of its rows",
        "put it in WHERE, or in a subquery of the right side",
        _ONE,
        "SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county AND v.cost > 5",
        "SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county WHERE v.cost > 5",
    ),
    "loose join": Refusal(
        "a join with rows that have lost their owner",
        "after DISTINCT or GROUP BY without the owner nobody owns a row",
        "keep the owner: SELECT DISTINCT patient_id, ... or GROUP BY patient_id, ...",
        "a row that lost its owner has none again",
        "SELECT COUNT(*) FROM visits v JOIN (SELECT DISTINCT diagnosis FROM visits) d ON v.diagnosis = d.diagnosis",
        "SELECT COUNT(*) FROM visits v JOIN (SELECT DISTINCT patient_id, diagnosis FROM visits) d "
        "ON v.patient_id = d.patient_id AND v.diagnosis = d.diagnosis",
    ),
    "semi join": Refusal(
        "SEMI JOIN and ANTI JOIN",
        "they are written as conditions here",
        "WHERE x IN (SELECT ...) or WHERE EXISTS (SELECT ...)",
        _ALLOW,
        "SELECT COUNT(*) FROM patients p SEMI JOIN visits v ON p.patient_id = v.patient_id",
        "SELECT COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id FROM visits)",
    ),
    "uncorrelated": Refusal(
        "IN or EXISTS over a private table that does not stay within one owner",
        "whether a row counts would depend on other people's rows",
        "add WHERE inner.patient_id = outer.patient_id to the subquery",
        _OWNER,
        "SELECT COUNT(*) FROM visits WHERE diagnosis IN (SELECT diagnosis FROM visits WHERE cost > 100)",
        "SELECT COUNT(*) FROM visits v WHERE diagnosis IN (SELECT diagnosis FROM visits w WHERE cost > 100 "
        "AND w.patient_id = v.patient_id)",
    ),
    "correlation": Refusal(
        "a subquery that uses the outer row in something else than an equality joined with AND",
        "how it meets the outer rows would not be bounded",
        "correlate by inner.x = outer.x only",
        _OWNER,
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id "
        "AND w.cost > v.cost)",
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id "
        "AND w.cost > 100)",
    ),
    "not in null": Refusal(
        "NOT IN with values that can be null",
        "one null in the list makes every answer unknown",
        "NOT EXISTS, which keeps rows where the value is null: add IS NOT NULL if they are not wanted",
        "three-valued logic",
        "SELECT COUNT(*) FROM visits WHERE county NOT IN (SELECT county FROM counties)",
        "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM counties c WHERE c.county = v.county)",
    ),
    "subquery place": Refusal(
        "IN or EXISTS over a subquery outside WHERE",
        "it is answered as a join, which belongs to the rows",
        "put it into the WHERE of a subquery, or join",
        _ALLOW,
        "SELECT COUNT_IF(EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id)) FROM patients p",
        "SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id)",
    ),
    "scalar subquery": Refusal(
        "a subquery used as a value",
        "an exact total of everybody would stand beside each row",
        "ask for it as a question of its own, or compute it inside a person with GROUP BY patient_id",
        _OWNER,
        "SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
        "SELECT COUNT(*) FROM visits WHERE cost > 250",
    ),
    "window": Refusal(
        "window functions",
        "their value depends on the order of rows, or on other people's rows",
        "aggregate per person in a subquery with GROUP BY patient_id",
        _ORDER,
        "SELECT SUM(cost) OVER (PARTITION BY county) FROM visits",
        "SELECT AVG(total) FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id)",
    ),
    "inner limit": Refusal(
        "LIMIT, OFFSET or FETCH inside a subquery",
        "which rows stay would depend on the order of rows, and so on other people's",
        "move it to the end of the question, where it acts on the noisy result",
        _ORDER,
        "SELECT COUNT(*) FROM (SELECT cost FROM visits LIMIT 10)",
        "SELECT county, COUNT(*) AS n FROM visits GROUP BY county ORDER BY n DESC LIMIT 10",
    ),
    "inner total": Refusal(
        "an aggregate without GROUP BY inside a subquery",
        "it has a row even when there is nobody",
        "GROUP BY patient_id inside, or ask for the total as a question of its own",
        "a grand total belongs to the question, not inside a plan",
        "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits)",
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)",
    ),
    "inner sets": Refusal(
        "ROLLUP, CUBE or GROUPING SETS inside a subquery",
        "one row would stand in several groups",
        "use them in the outer question",
        _ALLOW,
        "SELECT SUM(n) FROM (SELECT county, COUNT(*) AS n FROM visits GROUP BY ROLLUP (county))",
        "SELECT county, COUNT(*) FROM visits GROUP BY ROLLUP (county)",
    ),
    "inner aggregate": Refusal(
        "this aggregate inside a subquery",
        "inside a person aggregates are exact: COUNT, SUM, AVG, MIN, MAX, COUNT_IF and COUNT(DISTINCT x)",
        "one of those, or the aggregate in the outer question",
        _ALLOW,
        "SELECT AVG(m) FROM (SELECT patient_id, MEDIAN(cost) AS m FROM visits GROUP BY patient_id)",
        "SELECT AVG(m) FROM (SELECT patient_id, MAX(cost) AS m FROM visits GROUP BY patient_id)",
    ),
    "outer union": Refusal(
        "UNION of answers",
        "each part is a question with a price of its own",
        "UNION ALL the rows in a subquery and aggregate them, or ask two questions",
        _ALLOW,
        "SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM patients",
        "SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION ALL SELECT patient_id FROM patients)",
    ),
    "set operation": Refusal(
        "EXCEPT and INTERSECT",
        "whether a row stays would depend on other people's rows",
        "EXISTS or NOT EXISTS within the owner",
        _OWNER,
        "SELECT COUNT(*) FROM (SELECT patient_id FROM patients EXCEPT SELECT patient_id FROM visits)",
        "SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id)",
    ),
    "union by name": Refusal(
        "UNION with BY NAME, CORRESPONDING or different columns",
        "columns meet by position and have one kind each",
        "select the same columns in the same order on both sides",
        _ALLOW,
        "SELECT COUNT(*) FROM (SELECT cost FROM visits UNION ALL SELECT cost, date FROM visits)",
        "SELECT COUNT(*) FROM (SELECT cost FROM visits UNION ALL SELECT cost FROM visits)",
    ),
    "recursive": Refusal(
        "WITH RECURSIVE",
        "its work has no bound",
        "write the steps out",
        "work is bounded",
        "WITH RECURSIVE r AS (SELECT cost FROM visits) SELECT COUNT(*) FROM r",
        "WITH r AS (SELECT cost FROM visits) SELECT COUNT(*) FROM r",
    ),
    "from": Refusal(
        "FROM something that is no registered table or subquery",
        "only registered tables can be read",
        "the name of a table of the catalog, or (SELECT ...)",
        "plans read registered tables",
        "SELECT COUNT(*) FROM read_csv('visits.csv')",
        "SELECT COUNT(*) FROM visits",
    ),
    "sample": Refusal(
        "TABLESAMPLE and USING SAMPLE",
        "a sample of rows is drawn by position, and makes answers worse without making them cheaper",
        "leave it out",
        _ORDER,
        "SELECT COUNT(*) FROM visits TABLESAMPLE 10%",
        "SELECT COUNT(*) FROM visits",
    ),
    "distinct on": Refusal(
        "DISTINCT ON",
        "which row stays depends on the order of rows",
        "MIN or MAX per person with GROUP BY patient_id",
        _ORDER,
        "SELECT AVG(cost) FROM (SELECT DISTINCT ON (patient_id) cost FROM visits)",
        "SELECT AVG(cost) FROM (SELECT patient_id, MAX(cost) AS cost FROM visits GROUP BY patient_id)",
    ),
    "rows": Refusal(
        "a question without an aggregate",
        "rows are never shown",
        "add one, such as COUNT(*)",
        "only noisy aggregates leave",
        "SELECT * FROM visits",
        "SELECT COUNT(*) FROM visits",
    ),
    "public only": Refusal(
        "a question about public tables alone",
        "there is nobody to protect, and so nothing to answer with noise",
        "read the public table itself, or join it to a private one",
        "plans read registered private tables",
        "SELECT AVG(beds) FROM counties",
        "SELECT AVG(beds) FROM visits JOIN counties USING (county)",
    ),
    "id": Refusal(
        "an id outside COUNT(DISTINCT ...), joins and GROUP BY in a subquery",
        "ids name people or rows, and are never shown, grouped by or computed with",
        "COUNT(DISTINCT patient_id) counts people; GROUP BY patient_id works inside a subquery",
        "ids are never read",
        "SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id",
        "SELECT n, COUNT(*) FROM (SELECT patient_id, LEAST(COUNT(*), 20) AS n FROM visits GROUP BY patient_id) "
        "GROUP BY n",
    ),
    "distinct id": Refusal(
        "COUNT of a row's id",
        "a row's id is never read",
        "COUNT(*) counts rows, COUNT(DISTINCT patient_id) counts people",
        "ids are never read",
        "SELECT COUNT(DISTINCT visit_id) FROM visits",
        "SELECT COUNT(*) FROM visits",
    ),
    "text key": Refusal(
        "GROUP BY a text",
        "a text has no list of values, so not all keys can be returned",
        "a category of the catalog, CASE ... THEN 'label' ..., or declare the column as a category with values: "
        "undeclared",
        "all declared keys are returned",
        "SELECT note, COUNT(*) FROM visits GROUP BY note",
        "SELECT CASE WHEN note LIKE '%x%' THEN 'with x' ELSE 'without' END AS kind, COUNT(*) FROM visits GROUP BY kind",
    ),
    "not a key": Refusal(
        "a column that is neither a key nor inside an aggregate",
        "it has many values in a group",
        "add it to GROUP BY, or aggregate it, as in AVG(cost)",
        "only noisy aggregates leave",
        "SELECT county, cost FROM visits GROUP BY county",
        "SELECT county, AVG(cost) FROM visits GROUP BY county",
    ),
    "distinct aggregate": Refusal(
        "DISTINCT inside this aggregate",
        "values of different people would count once together, and their number is not bounded",
        "COUNT(DISTINCT x), or the aggregate without DISTINCT",
        _ALLOW,
        "SELECT SUM(DISTINCT cost) FROM visits",
        "SELECT SUM(cost) FROM visits",
    ),
    "distinct answers": Refusal(
        "SELECT DISTINCT over noisy values",
        "noisy values differ anyway, and each row is a group of its own",
        "leave DISTINCT out",
        _ALLOW,
        "SELECT DISTINCT COUNT(*) FROM visits GROUP BY county",
        "SELECT COUNT(*) FROM visits GROUP BY county",
    ),
    "nested aggregate": Refusal(
        "an aggregate inside an aggregate",
        "the inner one needs groups of its own",
        "a subquery with GROUP BY patient_id",
        _ALLOW,
        "SELECT AVG(COUNT(*)) FROM visits",
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)",
    ),
    "aggregate in where": Refusal(
        "an aggregate in WHERE or GROUP BY",
        "rows are chosen before they are counted",
        "HAVING, or a subquery with GROUP BY patient_id",
        _ALLOW,
        "SELECT county, COUNT(*) FROM visits WHERE COUNT(*) > 5 GROUP BY county",
        "SELECT county, COUNT(*) FROM visits GROUP BY county HAVING COUNT(*) > 5",
    ),
    "quantile": Refusal(
        "a quantile whose share is no constant between 0 and 1",
        "each share is a release",
        "one column per share, as in QUANTILE(cost, 0.25); MIN(cost) and MAX(cost) for the ends",
        "parameters have a range",
        "SELECT QUANTILE(cost, 0) FROM visits",
        "SELECT MIN(cost), QUANTILE(cost, 0.25) FROM visits",
    ),
    "null constant": Refusal(
        "a comparison with NULL",
        "it is never true",
        "IS NULL or IS NOT NULL",
        "three-valued logic",
        "SELECT COUNT(*) FROM visits WHERE cost = NULL",
        "SELECT COUNT(*) FROM visits WHERE cost IS NULL",
    ),
    "parameter": Refusal(
        "a parameter (?, $1, :name)",
        "a question is priced and stored as it stands",
        "write the constant",
        _ALLOW,
        "SELECT COUNT(*) FROM visits WHERE cost > ?",
        "SELECT COUNT(*) FROM visits WHERE cost > 10",
    ),
    "cast": Refusal(
        "a CAST without a rule",
        "it would raise on some rows, and an error that one row causes is an answer about that row",
        "CAST to INTEGER, DECIMAL(p, s), DATE or BOOLEAN of a number, truth value or timestamp; "
        "parse_integer(text, low, high) for texts",
        "functions are total",
        "SELECT SUM(CAST(note AS INTEGER)) FROM visits",
        "SELECT SUM(parse_integer(note, 0, 100)) FROM visits",
    ),
    "interval": Refusal(
        "an interval that is no constant number of days, weeks, months or years",
        "its length would depend on the row",
        "date + INTERVAL 3 DAY, date + 3, or add_days(date, n)",
        "functions are total",
        "SELECT COUNT(*) FROM visits WHERE date + INTERVAL 3 HOUR > DATE '2025-01-01'",
        "SELECT COUNT(*) FROM visits WHERE date + INTERVAL 3 DAY > DATE '2025-01-01'",
    ),
    "explain": Refusal(
        "EXPLAIN",
        "it shows how an engine runs a question on the data, and so tells about the data",
        "EXPLAIN PRIVACY SELECT ... shows plan, noise and price, and reads no data",
        "only noisy aggregates leave",
        "EXPLAIN SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM visits",
    ),
    "max groups": Refusal(
        "max_groups over rows without an owner",
        "groups are limited per owner",
        "leave max_groups out, or keep the owner in the subquery",
        "a row that lost its owner has none again",
        "",
        "",
    ),
    "deep": Refusal(
        "a question nested too deeply",
        "its reading has a bound",
        "write it flatter",
        "work is bounded",
        "",
        "",
    ),
}


def reference() -> str:
    """The table as the reference page shows it."""
    rows = [f"| {row.what} | {row.why} | {row.instead} | {row.rule} |" for row in REFUSALS.values()]
    return "\n".join(["| refused | why | instead | rule |", "|---|---|---|---|", *rows]) + "\n"
