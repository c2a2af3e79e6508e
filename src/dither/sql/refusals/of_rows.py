"""Refusals of what a question reads: joins, subqueries, unions, tables."""

from __future__ import annotations

from dither.rules import PrivacyRule
from dither.sql.refusals.refusal import Refusal

OF_ROWS: dict[str, Refusal] = {
    "comma join": Refusal(
        "tables with a comma between them that no equality of WHERE ties",
        "rows of different people would meet",
        "write a JOIN b ON a.patient_id = b.patient_id",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM patients p, visits v",
        "SELECT COUNT(*) FROM patients p JOIN visits v ON p.patient_id = v.patient_id",
        without_owner="ask about one private table: each of its rows is protected by "
        "itself, and no two may meet",
    ),
    "natural join": Refusal(
        "NATURAL JOIN of a subquery whose columns are not written out",
        "it does not tell which columns it joins by",
        "name the columns with USING (...) or ON",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM visits NATURAL JOIN (SELECT * FROM patients) p",
        "SELECT COUNT(*) FROM visits JOIN patients USING (patient_id)",
    ),
    "cross join": Refusal(
        "CROSS JOIN",
        "it pairs the rows of different people",
        "join on the owner, or a public table by its key",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM visits CROSS JOIN counties",
        "SELECT COUNT(*) FROM visits JOIN counties USING (county)",
    ),
    "full join": Refusal(
        "FULL JOIN",
        "rows of one side without a match would have no owner, or come and go with other people's "
        "rows",
        "LEFT JOIN with the private side first",
        PrivacyRule.ONE_OWNER,
        "SELECT COUNT(*) FROM visits v FULL JOIN counties c ON v.county = c.county",
        "SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county",
    ),
    "public preserved": Refusal(
        "a join that keeps the rows of a public table",
        "public rows without a match have no owner, and would vanish when somebody joins",
        "put the private table first; to list every public key, GROUP BY a column of the public "
        "table and count a column of the private one",
        PrivacyRule.ONE_OWNER,
        "SELECT COUNT(v.cost) FROM counties c LEFT JOIN visits v ON c.county = v.county",
        "SELECT c.county, COUNT(v.cost) FROM counties c LEFT JOIN visits v ON c.county = v.county "
        "GROUP BY c.county",
    ),
    "public count": Refusal(
        "COUNT(*) over a public table LEFT JOIN a private one",
        "it counts one row for a public key that nobody has",
        "count a column of the private table, as in COUNT(v.visit_id)",
        PrivacyRule.ONE_OWNER,
        "SELECT c.county, COUNT(*) FROM counties c LEFT JOIN visits v ON c.county = v.county GROUP "
        "BY c.county",
        "SELECT c.county, COUNT(v.visit_id) FROM counties c LEFT JOIN visits v ON c.county = "
        "v.county GROUP BY c.county",
    ),
    "join without owner": Refusal(
        "a join of two private tables that does not say that both rows have the same owner",
        "rows of different people would meet",
        "add AND a.patient_id = b.patient_id (or join by the foreign key that leads to the owner)",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.date = b.date",
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.date = "
        "b.date",
        without_owner="ask about one private table: each of its rows is protected by "
        "itself, and no two may meet",
    ),
    "join condition": Refusal(
        "a join by something else than equalities joined with AND",
        "how many rows one person can get would not be bounded",
        "join by a.x = b.x, and put other conditions in WHERE or in a subquery of the right side",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM visits v JOIN counties c ON v.county = c.county OR c.beds > 5",
        "SELECT COUNT(*) FROM visits v JOIN counties c ON v.county = c.county WHERE c.beds > 5",
    ),
    "left condition": Refusal(
        "a condition on the left side, or on both, in the ON of a LEFT JOIN",
        "the left side keeps all of its rows",
        "put it in WHERE, which leaves out the rows where it fails, or in a CASE around the "
        "columns of the right side",
        PrivacyRule.ONE_OWNER,
        "SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county AND v.cost > 5",
        "SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county WHERE v.cost > "
        "5",
    ),
    "loose join": Refusal(
        "a join with rows that have lost their owner",
        "after DISTINCT or GROUP BY without the owner nobody owns a row",
        "keep the owner: SELECT DISTINCT patient_id, ... or GROUP BY patient_id, ...",
        PrivacyRule.LOST_OWNER,
        "SELECT COUNT(*) FROM visits v JOIN (SELECT DISTINCT diagnosis FROM visits) d ON "
        "v.diagnosis = d.diagnosis",
        "SELECT COUNT(*) FROM visits v JOIN (SELECT DISTINCT patient_id, diagnosis FROM visits) d "
        "ON v.patient_id = d.patient_id AND v.diagnosis = d.diagnosis",
        without_owner="ask about one private table: each of its rows is protected by "
        "itself, and no two may meet",
    ),
    "semi join": Refusal(
        "SEMI JOIN and ANTI JOIN",
        "they are written as conditions here",
        "WHERE x IN (SELECT ...) or WHERE EXISTS (SELECT ...)",
        PrivacyRule.NO_RULE,
        "SELECT COUNT(*) FROM patients p SEMI JOIN visits v ON p.patient_id = v.patient_id",
        "SELECT COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id FROM visits)",
    ),
    "uncorrelated": Refusal(
        "IN or EXISTS over a private table that does not stay within one owner",
        "whether a row counts would depend on other people's rows",
        "add WHERE inner.patient_id = outer.patient_id to the subquery",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM visits WHERE diagnosis IN (SELECT diagnosis FROM visits WHERE cost > "
        "100)",
        "SELECT COUNT(*) FROM visits v WHERE diagnosis IN (SELECT diagnosis FROM visits w WHERE "
        "cost > 100 AND w.patient_id = v.patient_id)",
        without_owner="ask about one private table: each of its rows is protected by "
        "itself, and no two may meet",
    ),
    "correlation": Refusal(
        "a subquery that uses the outer row in something else than equalities and one comparison "
        "of columns joined with AND",
        "how it meets the outer rows would not be bounded",
        "correlate by inner.x = outer.x, and by one of <>, <, <=, >, >= inside a person",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = "
        "v.patient_id AND w.cost > 2 * v.cost)",
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = "
        "v.patient_id AND w.cost > v.cost)",
    ),
    "not in null": Refusal(
        "NOT IN with values that can be null",
        "one null in the list makes every answer unknown",
        "NOT EXISTS, which keeps rows where the value is null: add IS NOT NULL if they are not "
        "wanted",
        PrivacyRule.NULL_LOGIC,
        "SELECT COUNT(*) FROM visits WHERE county NOT IN (SELECT county FROM counties)",
        "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM counties c WHERE c.county = "
        "v.county)",
    ),
    "subquery place": Refusal(
        "IN or EXISTS over a subquery outside WHERE",
        "it is answered as a join, which belongs to the rows",
        "put it into the WHERE of a subquery, or join",
        PrivacyRule.NO_RULE,
        "SELECT COUNT_IF(EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id)) FROM "
        "patients p",
        "SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = "
        "p.patient_id)",
    ),
    "scalar subquery": Refusal(
        "a subquery used as a value",
        "an exact total of everybody would stand beside each row",
        "ask for it as a question of its own, or compute it inside a person with GROUP BY "
        "patient_id",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
        "SELECT COUNT(*) FROM visits WHERE cost > 250",
        without_owner="ask for it as a question of its own, and write the number",
    ),
    "public scalar": Refusal(
        "a subquery over public tables that may give several rows, or stands beside noisy numbers",
        "public tables are read together with private rows, and each row meets one value",
        "in WHERE or inside an aggregate a total such as MAX(...), or the row of a unique key; "
        "beside noisy numbers write the number, which is public",
        PrivacyRule.PUBLIC_FACTS,
        "SELECT COUNT(*) / (SELECT SUM(beds) FROM counties) FROM visits",
        "SELECT COUNT(*) / 9310 FROM visits",
    ),
    "window": Refusal(
        "window functions",
        "their value depends on the order of rows, or on other people's rows",
        "aggregate per person in a subquery with GROUP BY patient_id",
        PrivacyRule.ROWS_ARE_A_SET,
        "SELECT SUM(cost) OVER (PARTITION BY county) FROM visits",
        "SELECT AVG(total) FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY "
        "patient_id)",
        without_owner="aggregate in the question itself: each row is protected by itself",
    ),
    "inner limit": Refusal(
        "LIMIT, OFFSET or FETCH inside a subquery",
        "which rows stay would depend on the order of rows, and so on other people's",
        "move it to the end of the question, where it acts on the noisy result",
        PrivacyRule.ROWS_ARE_A_SET,
        "SELECT COUNT(*) FROM (SELECT cost FROM visits LIMIT 10)",
        "SELECT county, COUNT(*) AS n FROM visits GROUP BY county ORDER BY n DESC LIMIT 10",
    ),
    "inner total": Refusal(
        "an aggregate without GROUP BY inside a subquery",
        "it has a row even when there is nobody",
        "GROUP BY patient_id inside, or ask for the total as a question of its own",
        PrivacyRule.TOTALS,
        "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits)",
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)",
        without_owner="ask for the total as a question of its own",
    ),
    "inner sets": Refusal(
        "ROLLUP, CUBE or GROUPING SETS inside a subquery",
        "one row would stand in several groups",
        "use them in the outer question",
        PrivacyRule.NO_RULE,
        "SELECT SUM(n) FROM (SELECT county, COUNT(*) AS n FROM visits GROUP BY ROLLUP (county))",
        "SELECT county, COUNT(*) FROM visits GROUP BY ROLLUP (county)",
    ),
    "inner aggregate": Refusal(
        "this aggregate inside a subquery",
        "inside a person aggregates are exact: COUNT, SUM, AVG, MIN, MAX, COUNT_IF and "
        "COUNT(DISTINCT x)",
        "one of those, or the aggregate in the outer question",
        PrivacyRule.NO_RULE,
        "SELECT AVG(m) FROM (SELECT patient_id, MEDIAN(cost) AS m FROM visits GROUP BY patient_id)",
        "SELECT AVG(m) FROM (SELECT patient_id, MAX(cost) AS m FROM visits GROUP BY patient_id)",
    ),
    "outer union": Refusal(
        "UNION of answers",
        "each part is a question with a price of its own",
        "UNION ALL the rows in a subquery and aggregate them, or ask two questions",
        PrivacyRule.NO_RULE,
        "SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM patients",
        "SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION ALL SELECT patient_id FROM "
        "patients)",
    ),
    "set operation": Refusal(
        "EXCEPT and INTERSECT",
        "whether a row stays would depend on other people's rows",
        "EXISTS or NOT EXISTS within the owner",
        PrivacyRule.OWNERS_APART,
        "SELECT COUNT(*) FROM (SELECT patient_id FROM patients EXCEPT SELECT patient_id FROM "
        "visits)",
        "SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE "
        "v.patient_id = p.patient_id)",
    ),
    "union by name": Refusal(
        "UNION with BY NAME, CORRESPONDING or different columns",
        "columns meet by position and have one kind each",
        "select the same columns in the same order on both sides",
        PrivacyRule.NO_RULE,
        "SELECT COUNT(*) FROM (SELECT cost FROM visits UNION ALL SELECT cost, date FROM visits)",
        "SELECT COUNT(*) FROM (SELECT cost FROM visits UNION ALL SELECT cost FROM visits)",
    ),
    "recursive": Refusal(
        "WITH RECURSIVE",
        "its work has no bound",
        "write the steps out",
        PrivacyRule.BOUNDED_WORK,
        "WITH RECURSIVE r AS (SELECT cost FROM visits) SELECT COUNT(*) FROM r",
        "WITH r AS (SELECT cost FROM visits) SELECT COUNT(*) FROM r",
    ),
    "from": Refusal(
        "FROM something that is no registered table or subquery",
        "only registered tables can be read",
        "the name of a table of the catalog, or (SELECT ...)",
        PrivacyRule.REGISTERED_TABLES,
        "SELECT COUNT(*) FROM read_csv('visits.csv')",
        "SELECT COUNT(*) FROM visits",
    ),
    "sample": Refusal(
        "TABLESAMPLE and USING SAMPLE",
        "a sample of rows is drawn by position, and makes answers worse without making them "
        "cheaper",
        "leave it out",
        PrivacyRule.ROWS_ARE_A_SET,
        "SELECT COUNT(*) FROM visits TABLESAMPLE 10%",
        "SELECT COUNT(*) FROM visits",
    ),
    "distinct on": Refusal(
        "DISTINCT ON",
        "which row stays depends on the order of rows",
        "MIN or MAX per person with GROUP BY patient_id",
        PrivacyRule.ROWS_ARE_A_SET,
        "SELECT AVG(cost) FROM (SELECT DISTINCT ON (patient_id) cost FROM visits)",
        "SELECT AVG(cost) FROM (SELECT patient_id, MAX(cost) AS cost FROM visits GROUP BY "
        "patient_id)",
        without_owner="aggregate in the question itself: each row is protected by itself",
    ),
}
