"""Refusals of what a question asks for: columns, aggregates, constants, and the question itself."""

from __future__ import annotations

from dither.rules import PrivacyRule
from dither.sql.refusals.refusal import Refusal

OF_ANSWERS: dict[str, Refusal] = {
    "rows": Refusal(
        "a question without an aggregate",
        "rows are never shown",
        "add one, such as COUNT(*)",
        PrivacyRule.NOISY_AGGREGATES,
        "SELECT * FROM visits",
        "SELECT COUNT(*) FROM visits",
    ),
    "public only": Refusal(
        "a question about public tables alone",
        "there is nobody to protect, and so nothing to answer with noise",
        "read the public table itself, or join it to a private one",
        PrivacyRule.REGISTERED_TABLES,
        "SELECT AVG(beds) FROM counties",
        "SELECT AVG(beds) FROM visits JOIN counties USING (county)",
    ),
    "public rows": Refusal(
        "rows of public tables that rows of people choose",
        "which of them are shown would say exactly who has rows",
        "ask for a number of the people's rows by a key of theirs, and choose among the noisy "
        "answers",
        PrivacyRule.NOISY_AGGREGATES,
        "SELECT county FROM counties WHERE county IN (SELECT county FROM visits WHERE cost > 100)",
        "SELECT county, COUNT(*) AS n FROM visits WHERE cost > 100 GROUP BY county HAVING n > 20",
    ),
    "id": Refusal(
        "an id outside COUNT(DISTINCT ...), joins and GROUP BY in a subquery",
        "ids name people or rows, and are never shown, grouped by or computed with",
        "COUNT(DISTINCT patient_id) counts people; GROUP BY patient_id works inside a subquery",
        PrivacyRule.IDS_NEVER_READ,
        "SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id",
        "SELECT n, COUNT(*) FROM (SELECT patient_id, LEAST(COUNT(*), 20) AS n FROM visits GROUP BY "
        "patient_id) GROUP BY n",
        without_owner="COUNT(*) counts the rows, each of which is protected by itself",
    ),
    "distinct id": Refusal(
        "COUNT of a row's id",
        "a row's id is never read",
        "COUNT(*) counts rows, COUNT(DISTINCT patient_id) counts people",
        PrivacyRule.IDS_NEVER_READ,
        "SELECT COUNT(DISTINCT doctor_id) FROM visits",
        "SELECT COUNT(*) FROM visits",
        without_owner="COUNT(*) counts the rows, each of which is protected by itself",
    ),
    "filtered people": Refusal(
        "a count of people with FILTER (WHERE ...) by a key without declared values",
        "such keys are selected among all rows, and these people are counted among fewer",
        "beside counts, sums and averages alone it is counted per person; or put the condition "
        "into WHERE",
        PrivacyRule.KEY_SELECTION,
        "SELECT diagnosis, MEDIAN(cost) AS m, COUNT(DISTINCT patient_id) FILTER (WHERE cost > 5) "
        "AS n FROM visits GROUP BY diagnosis",
        "SELECT diagnosis, COUNT(DISTINCT patient_id) FILTER (WHERE cost > 5) AS n FROM visits "
        "GROUP BY diagnosis",
    ),
    "text key": Refusal(
        "GROUP BY a text",
        "a text has no list of values, so not all keys can be returned",
        "a category of the catalog, CASE ... THEN 'label' ..., or declare the column as a category "
        "with values: undeclared",
        PrivacyRule.ALL_KEYS,
        "SELECT note, COUNT(*) FROM visits GROUP BY note",
        "SELECT CASE WHEN note LIKE '%x%' THEN 'with x' ELSE 'without' END AS kind, COUNT(*) FROM "
        "visits GROUP BY kind",
    ),
    "two names": Refusal(
        "one key under two names in ROLLUP, CUBE or GROUPING SETS",
        "engines differ in whether it is one key or two",
        "name it once; a column can still be shown twice",
        PrivacyRule.NO_RULE,
        "SELECT ward AS a, ward AS b, COUNT(*) FROM visits GROUP BY ROLLUP (a, b)",
        "SELECT ward AS a, ward AS b, COUNT(*) FROM visits GROUP BY ROLLUP (ward)",
    ),
    "not a key": Refusal(
        "a column that is neither a key nor inside an aggregate",
        "it has many values in a group",
        "add it to GROUP BY, or aggregate it, as in AVG(cost)",
        PrivacyRule.NOISY_AGGREGATES,
        "SELECT county, cost FROM visits GROUP BY county",
        "SELECT county, AVG(cost) FROM visits GROUP BY county",
    ),
    "distinct aggregate": Refusal(
        "DISTINCT inside this aggregate",
        "values of different people would count once together, and their number is not bounded",
        "COUNT(DISTINCT x), or the aggregate without DISTINCT",
        PrivacyRule.NO_RULE,
        "SELECT SUM(DISTINCT cost) FROM visits",
        "SELECT SUM(cost) FROM visits",
    ),
    "distinct answers": Refusal(
        "SELECT DISTINCT over noisy values",
        "noisy values differ anyway, and each row is a group of its own",
        "leave DISTINCT out",
        PrivacyRule.NO_RULE,
        "SELECT DISTINCT COUNT(*) FROM visits GROUP BY county",
        "SELECT COUNT(*) FROM visits GROUP BY county",
    ),
    "nested aggregate": Refusal(
        "an aggregate inside an aggregate",
        "the inner one needs groups of its own",
        "a subquery with GROUP BY patient_id",
        PrivacyRule.NO_RULE,
        "SELECT AVG(COUNT(*)) FROM visits",
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)",
        without_owner="one aggregate of the rows: each of them is protected by itself",
    ),
    "aggregate in where": Refusal(
        "an aggregate in WHERE or GROUP BY",
        "rows are chosen before they are counted",
        "HAVING, or a subquery with GROUP BY patient_id",
        PrivacyRule.NO_RULE,
        "SELECT county, COUNT(*) FROM visits WHERE COUNT(*) > 5 GROUP BY county",
        "SELECT county, COUNT(*) FROM visits GROUP BY county HAVING COUNT(*) > 5",
        without_owner="HAVING",
    ),
    "quantile": Refusal(
        "a quantile whose share is no constant between 0 and 1",
        "each share is a release",
        "one column per share, as in QUANTILE(cost, 0.25); MIN(cost) and MAX(cost) for the ends",
        PrivacyRule.PARAMETER_RANGES,
        "SELECT QUANTILE(cost, 0) FROM visits",
        "SELECT MIN(cost), QUANTILE(cost, 0.25) FROM visits",
    ),
    "null constant": Refusal(
        "a comparison with NULL",
        "it is never true",
        "IS NULL or IS NOT NULL",
        PrivacyRule.NULL_LOGIC,
        "SELECT COUNT(*) FROM visits WHERE cost = NULL",
        "SELECT COUNT(*) FROM visits WHERE cost IS NULL",
    ),
    "parameter": Refusal(
        "a parameter (?, $1, :name)",
        "a question is priced and stored as it stands, with its values",
        "write the constant, or give it with params=",
        PrivacyRule.NO_RULE,
        "SELECT COUNT(*) FROM visits WHERE cost > ?",
        "SELECT COUNT(*) FROM visits WHERE cost > 10",
    ),
    "cast": Refusal(
        "a CAST without a rule",
        "it would raise on some rows, and an error that one row causes is an answer about that row",
        "CAST to INTEGER, DECIMAL(p, s), DATE or BOOLEAN of a number, truth value or timestamp; "
        "parse_integer(text, low, high) for texts",
        PrivacyRule.TOTAL_FUNCTIONS,
        "SELECT SUM(CAST(note AS INTEGER)) FROM visits",
        "SELECT SUM(parse_integer(note, 0, 100)) FROM visits",
    ),
    "interval": Refusal(
        "an interval that is no constant number of days, weeks, months or years",
        "its length would depend on the row",
        "date + INTERVAL 3 DAY, date + 3, or add_days(date, n)",
        PrivacyRule.TOTAL_FUNCTIONS,
        "SELECT COUNT(*) FROM visits WHERE date + INTERVAL 3 HOUR > DATE '2025-01-01'",
        "SELECT COUNT(*) FROM visits WHERE date + INTERVAL 3 DAY > DATE '2025-01-01'",
    ),
    "explain": Refusal(
        "EXPLAIN",
        "it shows how an engine runs a question on the data, and so tells about the data",
        "EXPLAIN PRIVACY SELECT ... shows plan, noise and price, and reads no data",
        PrivacyRule.NOISY_AGGREGATES,
        "EXPLAIN SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM visits",
    ),
    "max groups": Refusal(
        "max_groups over rows without an owner",
        "groups are limited per owner",
        "leave max_groups out, or keep the owner in the subquery",
        PrivacyRule.LOST_OWNER,
        "",
        "",
    ),
    "deep": Refusal(
        "a question nested too deeply",
        "its reading has a bound",
        "write it flatter",
        PrivacyRule.BOUNDED_WORK,
        "",
        "",
    ),
    "long": Refusal(
        "a question with too many terms",
        "the work of reading it has a bound",
        "ask for fewer columns or conditions in one question, or list values in a public table",
        PrivacyRule.BOUNDED_WORK,
        "",
        "",
    ),
}
