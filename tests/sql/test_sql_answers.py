"""Questions against DuckDB: a recipe evaluated without noise, by the naive oracle, gives what
DuckDB gives.

Both look at the same registered rows. Ours returns every declared key; keys that nobody has are
left out here if all their atoms are empty. A pair is a question of ours with the same question in
DuckDB's words.
"""

from __future__ import annotations

import datetime
import decimal
import math
from fractions import Fraction

import pytest

from dither import canonical
from dither.audit.naive_plans import grouped
from dither.errors import QueryError
from dither.plan.algebra import Cells, Count, Keys, LimitGroups, Quantiles, Sum
from dither.question.documents import read_recipe, write_recipe
from dither.sql import aggregates, expressions, joins, per_unit
from dither.sql.bind import bind
from dither.strict_json import read_json
from tests.case_lists import mark_between, mark_rest
from tests.datasets import clinic_sql
from tests.sql.question_maker import Maker

V, P, R = "visits", "patients", "prescriptions"
QUESTIONS: list[str | tuple[str, str]] = [
    # people of a key by the key itself, which keeps both its values
    "SELECT urgent, COUNT(DISTINCT patient_id) FILTER (WHERE urgent) AS n FROM visits GROUP BY "
    "urgent",
    # written as elsewhere
    "SELECT strftime(date, '%Y-%m') AS m, COUNT(*) AS n FROM visits GROUP BY m",
    "SELECT strftime('%d/%m', date) AS m, SUM(cost) AS n FROM visits GROUP BY m",
    "SELECT strftime(date, '%Y') AS y, strftime(date, '%m%%') AS m, COUNT(*) AS n FROM visits "
    "GROUP BY y, m",
    "SELECT strftime(born, 'year %Y, day %d') AS m, COUNT(*) AS n FROM patients "
    "WHERE born >= DATE '2020-05-17' GROUP BY m",
    "SELECT strftime(date, '%Y-%m-%d') AS m, COUNT(*) AS n FROM visits "
    "WHERE date < DATE '2024-03-01' GROUP BY m",
    "SELECT strftime(date, '%Y') AS y, COUNT(*) AS n FROM visits "  # one label alone
    "WHERE date BETWEEN DATE '2024-02-01' AND DATE '2024-03-01' GROUP BY y",
    "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT 50 * 2) AND date >= (SELECT DATE "
    "'2024-06-01')",
    "SELECT COUNT(*) AS n FROM visits v CROSS JOIN counties c WHERE v.county = c.county AND beds "
    "> 5",
    "SELECT COUNT(*) AS n, SUM(age) AS a FROM patients p CROSS JOIN visits v, counties c WHERE "
    "v.patient_id = p.patient_id AND c.county = v.county",
    "SELECT SUM(k) AS n FROM (SELECT patient_id, COUNT(DISTINCT visit_id) AS k FROM "
    "visits WHERE urgent GROUP BY patient_id)",
    # EXISTS with a comparison inside a person, nulls on both sides
    "SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = "
    "v.patient_id AND w.score <> v.score)",
    "SELECT COUNT(*) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE "
    "w.patient_id = v.patient_id AND v.score <> w.score AND w.urgent)",
    "SELECT ward, COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE "
    "w.patient_id = v.patient_id AND v.date < w.date) GROUP BY ward",
    "SELECT COUNT(*) AS n FROM visits v WHERE urgent OR NOT EXISTS (SELECT 1 FROM visits w WHERE "
    "w.patient_id = v.patient_id AND w.cost >= v.cost AND w.ward = 'north')",
    "SELECT COUNT(*) AS n FROM prescriptions r WHERE EXISTS (SELECT 1 FROM prescriptions q WHERE "
    "q.visit_id = r.visit_id AND q.dose <> r.dose)",
    "SELECT COUNT(*) AS n FROM prescriptions r WHERE NOT EXISTS (SELECT 1 FROM prescriptions q "
    "WHERE q.visit_id = r.visit_id AND q.dose > r.dose)",
    # rows of an id inside a person
    "SELECT n, COUNT(*) AS k FROM (SELECT visit_id, COUNT(*) AS n FROM prescriptions GROUP BY "
    "visit_id) GROUP BY n",
    "SELECT COUNT(*) AS n FROM visits WHERE visit_id IN (SELECT visit_id FROM prescriptions GROUP "
    "BY visit_id HAVING SUM(dose) > 5)",
    "SELECT SUM(n) AS s FROM (SELECT patient_id, visit_id, COUNT(*) AS n FROM visits GROUP BY "
    "patient_id, visit_id)",
    "SELECT drug, COUNT(DISTINCT visit_id) AS n FROM prescriptions GROUP BY drug",
    "SELECT COUNT(DISTINCT visit_id) AS n FROM prescriptions WHERE dose > 2",
    "SELECT drug AS d, COUNT(DISTINCT visit_id) AS n FROM prescriptions GROUP BY 1 HAVING "
    "COUNT(DISTINCT visit_id) > 3",
    "SELECT ward, COUNT(DISTINCT r.visit_id) AS n FROM prescriptions r JOIN visits v ON r.visit_id "
    "= v.visit_id GROUP BY ward",
    # texts with few values
    "SELECT note, COUNT(*) AS n FROM visits WHERE note IN ('ok', 'x', 'nothing') GROUP BY note",
    "SELECT SUBSTR(note, 1, 1) AS k, COUNT(*) AS n FROM visits WHERE SUBSTR(note, 1, 1) IN ('s', "
    "'o') AND score > 0 GROUP BY k",
    "SELECT note, SUM(cost) AS s FROM visits WHERE (note = 'ok' OR note = 'x') AND urgent GROUP BY "
    "note",
    "SELECT c.county AS k, COUNT(*) AS n FROM visits v JOIN counties c ON v.county = c.county "
    "GROUP BY k",
    "SELECT s.county AS c, COUNT(*) AS n FROM visits v JOIN stations s ON v.county = s.county "
    "GROUP BY c",
    # texts of two public tables; a column of GROUP BY before an output of its name
    "SELECT k, COUNT(*) AS n FROM (SELECT s.county AS k FROM visits v JOIN stations s ON v.county "
    "= s.county UNION ALL SELECT c.county AS k FROM visits v JOIN counties c ON v.county = "
    "c.county) GROUP BY k",
    "SELECT dose // 2 AS dose, COUNT(DISTINCT visit_id) AS n FROM prescriptions GROUP BY dose",
    "SELECT dose // 2 AS half, COUNT(DISTINCT visit_id) AS n FROM prescriptions GROUP BY half "
    "ORDER BY half",
    # ids that are null where a LEFT JOIN found no row meet nothing
    "SELECT COUNT(*) AS n FROM visits v LEFT JOIN prescriptions r ON v.visit_id = r.visit_id JOIN "
    "visits w ON r.visit_id = w.visit_id",
    "SELECT COUNT(*) AS n FROM patients q WHERE q.patient_id IN (SELECT v.patient_id FROM patients "
    "p LEFT JOIN visits v ON p.patient_id = v.patient_id)",
    "SELECT COUNT(*) AS n FROM visits v LEFT JOIN prescriptions r ON v.visit_id = r.visit_id WHERE "
    "EXISTS (SELECT 1 FROM visits w WHERE w.visit_id = r.visit_id AND w.cost >= v.cost)",
    # tables in lists
    "SELECT COUNT(*) AS n FROM patients p, visits v WHERE (p.patient_id = v.patient_id AND v.score "
    "> 2) OR (p.patient_id = v.patient_id AND p.age > 50)",
    "SELECT COUNT(*) AS n FROM patients p, visits v WHERE (v.urgent AND p.patient_id = "
    "v.patient_id) OR p.patient_id = v.patient_id",
    "SELECT COUNT(*) AS n, SUM(x) AS s FROM patients p, (SELECT patient_id AS k, cost AS x FROM "
    "visits) v WHERE v.k = p.patient_id AND age > 30",
    "SELECT COUNT(*) AS n FROM visits NATURAL JOIN (SELECT patient_id, age FROM patients) p",
    # counts, sums, averages
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*) AS n, COUNT(cost) AS c, COUNT(DISTINCT patient_id) AS p, COUNT(DISTINCT "
    "county) AS d FROM visits",
    "SELECT county, COUNT(*) AS n, SUM(cost), AVG(cost) FROM visits GROUP BY county",
    "SELECT AVG(cost), AVG(score), AVG(CASE WHEN urgent THEN 1 ELSE 0 END) AS share FROM visits",
    "SELECT ward, AVG(age) FROM visits JOIN patients USING (patient_id) GROUP BY ward",
    "SELECT SUM(cost * 2 + score) AS x, SUM(cost) / COUNT(*) AS per_visit, SUM(cost) / "
    "COUNT(DISTINCT patient_id) AS per_person FROM visits",
    "SELECT COUNT(DISTINCT diagnosis) AS d, COUNT(DISTINCT score) AS s FROM visits WHERE urgent",
    "SELECT COUNT_IF(cost > 100) AS a, COUNTIF(urgent) AS b, COUNT(*) FILTER (WHERE ward = "
    "'north') AS c FROM visits",
    "SELECT SUM(cost) FILTER (WHERE urgent) AS a, AVG(cost) FILTER (WHERE NOT urgent) AS b, "
    "COUNT(DISTINCT patient_id) FILTER (WHERE cost > 300) AS c, COUNT(score) FILTER (WHERE score > "
    "0) AS d FROM visits",
    "SELECT VARIANCE(cost) AS a, VAR_POP(cost) AS b, STDDEV(cost) AS c, STDDEV_POP(score) AS d, "
    "VAR_SAMP(score) AS e FROM visits",
    "SELECT COUNT(*) AS n FROM visits v JOIN stations s ON v.county = s.county WHERE s.level = 1",
    "SELECT ward, SUM(level) AS n FROM visits v, stations s WHERE v.county = s.county AND level < "
    "2 AND score > 0 GROUP BY ward",
    "SELECT COUNT(*) AS n FROM visits v JOIN stations s ON v.county = s.county WHERE level = 1 OR "
    "urgent",
    "SELECT COUNT(*) AS n FROM visits v JOIN stations s ON v.county = s.county WHERE s.county <> "
    "'ash' AND NOT level = 2",
    # of 500,001 values of cost cubes would need more noise than can be drawn: it is rounded
    ("SELECT SKEWNESS(cost) AS a, SKEWNESS(score) AS b FROM visits",
     "SELECT SKEWNESS(ROUND(cost, 1)), SKEWNESS(score) FROM visits"),
    ("SELECT ward, SKEWNESS(cost) FILTER (WHERE score > 0) AS s FROM visits GROUP BY ward",
     "SELECT ward, SKEWNESS(ROUND(cost, 1)) FILTER (WHERE score > 0) FROM visits GROUP BY ward"),
    "SELECT ward, STDDEV_SAMP(cost) AS s, AVG(cost) AS m, SUM(cost) AS t FROM visits GROUP BY ward",
    "SELECT COVAR_POP(cost, score) AS a, COVAR_SAMP(cost, score) AS b, CORR(cost, score) AS c FROM "
    "visits",
    "SELECT REGR_SLOPE(cost, age) AS a, REGR_INTERCEPT(cost, age) AS b, REGR_COUNT(cost, age) AS "
    "c, REGR_R2(cost, age) AS d, REGR_AVGX(cost, age) AS e, REGR_AVGY(cost, age) AS f FROM visits "
    "v JOIN patients p ON v.patient_id = p.patient_id",
    "SELECT sex, CORR(score, cost) AS c FROM visits JOIN patients USING (patient_id) GROUP BY sex",
    ("SELECT MEDIAN(cost) AS a, QUANTILE(cost, 0.25) AS b, PERCENTILE_CONT(0.9) WITHIN "
     "GROUP (ORDER BY cost) AS c, PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY cost DESC) "
         "AS d FROM visits",
     "SELECT QUANTILE_DISC(cost, 0.5), QUANTILE_DISC(cost, 0.25), QUANTILE_DISC(cost, "
         "0.9), QUANTILE_DISC(cost, 0.1) FROM visits"),
    ("SELECT ward, APPROX_QUANTILE(score, 0.3) AS q, QUANTILE_DISC(score, 0.7) AS r FROM visits "
     "GROUP BY ward",
     "SELECT ward, QUANTILE_DISC(score, 0.3), QUANTILE_DISC(score, 0.7) FROM visits GROUP BY ward"),
    ("SELECT MIN(cost) AS a, MAX(cost) AS b, MIN(date) AS c FROM visits WHERE urgent",
     "SELECT QUANTILE_DISC(cost, 0.01), QUANTILE_DISC(cost, 0.99), QUANTILE_DISC(date, "
         "0.01) FROM visits WHERE urgent"),
    ("SELECT HISTOGRAM(score, 4) AS n FROM visits",
     "SELECT CASE WHEN score IS NOT NULL THEN -5 + 3 * ((score + 5) // 3) END, COUNT(*) FROM "
     "visits GROUP BY 1"),
    ("SELECT urgent, HISTOGRAM(cost, 50) AS n FROM visits GROUP BY urgent",
     "SELECT urgent, FLOOR(cost / 100.01) * 100.01, COUNT(*) FROM visits GROUP BY ALL"),
    # arithmetic over aggregates
    "SELECT ROUND(AVG(cost), 1) AS a, 100.0 * COUNT_IF(urgent) / COUNT(*) AS share, SUM(cost) - "
    "SUM(score) AS d FROM visits",
    "SELECT ward, COALESCE(SUM(cost) / NULLIF(COUNT(score), 0), 0) AS a, ABS(AVG(score)) AS b, "
    "GREATEST(COUNT(*), 30) AS g FROM visits GROUP BY ward",
    "SELECT CASE WHEN COUNT(*) > 100 THEN 1 ELSE 0 END AS many, SQRT(COUNT(*)) AS r, COUNT(*) // 7 "
    "AS w, COUNT(*) % 7 AS m FROM visits",
    "SELECT CAST(AVG(cost) AS DECIMAL(10, 2)) AS a, FLOOR(AVG(age)) AS b, POWER(AVG(age), 2) AS c "
    "FROM visits JOIN patients USING (patient_id)",
    # WHERE
    "SELECT COUNT(*) FROM visits WHERE cost BETWEEN 100 AND 300 AND NOT urgent OR score IN (1, 2, "
    "3)",
    "SELECT COUNT(*) FROM visits WHERE NOT (cost > 100 OR score = 3)",
    "SELECT COUNT(*) FROM visits WHERE cost IS NULL AND score IS NOT NULL",
    "SELECT COUNT(*) FROM visits WHERE county <> 'ash' AND ward IN ('north', 'other')",
    "SELECT COUNT(*) FROM visits WHERE county NOT IN ('ash', 'elm')",
    "SELECT COUNT(*) FROM visits WHERE note LIKE '%x%' OR diagnosis LIKE 'f_u'",
    "SELECT COUNT(*) FROM visits WHERE ward LIKE 'n%'",
    "SELECT COUNT(*) FROM visits WHERE note NOT LIKE 'o%'",
    "SELECT COUNT(*) FROM visits WHERE cost > score * 50",
    "SELECT COUNT(*) FROM visits WHERE score % 2 = 0 AND score // 2 < 2 AND ABS(score) > 1",
    "SELECT COUNT(*) FROM visits WHERE (cost > 100) IS TRUE AND (score > 0) IS NOT TRUE",
    "SELECT COUNT(*) FROM visits WHERE score IS DISTINCT FROM 1 AND ward IS NOT DISTINCT FROM "
    "'north'",
    "SELECT COUNT(*) FROM visits WHERE COALESCE(score, 0) >= 0 AND NULLIF(score, 3) IS NULL",
    "SELECT COUNT(*) FROM visits WHERE CASE WHEN urgent THEN score WHEN cost > 10 THEN NULL ELSE 1 "
    "END > 0",
    "SELECT SUM(CASE ward WHEN 'north' THEN 2 WHEN 'south' THEN 3 END) AS x FROM visits",
    "SELECT SUM(IF(urgent, cost, 0)) AS x, SUM(LEAST(cost, 100)) AS y, SUM(GREATEST(score, 0)) AS "
    "z FROM visits",
    "SELECT COUNT(*) FROM visits WHERE LENGTH(note) > 2 AND UPPER(note) <> 'FAX' AND "
    "SUBSTRING(note, 1, 1) = 's'",
    "SELECT COUNT(*) FROM visits WHERE CONCAT(note, '!') = '!' OR note || '!' = 'ok!'",
    "SELECT COUNT(*) FROM visits WHERE diagnosis IN ('flu', 'rash') AND STARTS_WITH(note, 's')",
    "SELECT SUM(CAST(cost AS INTEGER)) AS a, SUM(CAST(cost AS DECIMAL(10, 1))) AS b, "
    "SUM(FLOOR(cost)) AS c, SUM(CEIL(cost)) AS d, SUM(ROUND(cost, 1)) AS e FROM visits",
    "SELECT SUM(urgent::INT) AS a, SUM(-score) AS b, SUM(score * score) AS c, SUM(POWER(score, 3)) "
    "AS d FROM visits",
    "SELECT COUNT(*) FROM visits WHERE TRUE AND (urgent = TRUE OR FALSE)",
    # dates
    "SELECT COUNT(*) FROM visits WHERE date >= DATE '2025-01-01' AND date < DATE '2025-01-01' + "
    "INTERVAL 6 MONTH",
    "SELECT COUNT(*) FROM visits WHERE date > '2026-01-01'",
    "SELECT COUNT(*) FROM visits WHERE date + 30 > DATE '2026-06-01' AND date - INTERVAL 1 WEEK < "
    "DATE '2026-12-01'",
    "SELECT EXTRACT(year FROM date) AS y, COUNT(*) AS n FROM visits GROUP BY y",
    "SELECT year(date) AS y, quarter(date) AS q, COUNT(*) AS n FROM visits GROUP BY 1, 2",
    "SELECT date_part('month', date) AS m, COUNT(*) AS n FROM visits GROUP BY m",
    "SELECT date_trunc('month', date) AS m, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE date "
    ">= DATE '2025-03-10' GROUP BY m",
    "SELECT date_trunc('quarter', date) AS q, SUM(cost) AS n FROM visits GROUP BY 1",
    "SELECT date_trunc('week', date) AS w, COUNT(*) AS n FROM visits WHERE date < DATE "
    "'2024-04-01' GROUP BY w",
    "SELECT date_trunc('year', seen) AS y, COUNT(*) AS n FROM visits GROUP BY y",
    "SELECT isodow(date) AS d, dayofweek(date) AS e, COUNT(*) AS n FROM visits GROUP BY ALL",
    "SELECT hour(seen) AS h, COUNT(*) AS n FROM visits GROUP BY h",
    "SELECT date_trunc('hour', seen) AS h, COUNT(*) AS n FROM visits GROUP BY h",
    "SELECT date_trunc('minute', seen) AS m, COUNT(*) AS n FROM visits WHERE seen >= TIMESTAMP "
    "'2025-05-01 12:00:00' AND seen < TIMESTAMP '2025-06-01 12:00:30' GROUP BY m",
    "SELECT h, COUNT(*) AS n FROM (SELECT date_trunc('hour', seen) AS h FROM visits) GROUP BY h",
    "SELECT COUNT(*) AS n FROM visits WHERE date_trunc('hour', seen) = TIMESTAMP '2025-05-01 "
    "12:00:00' OR date_trunc('minute', seen) > TIMESTAMP '2026-01-01 00:00:00'",
    "SELECT COUNT(*) FROM visits WHERE seen >= TIMESTAMP '2025-05-01 12:00:00' AND CAST(seen AS "
    "DATE) < DATE '2026-01-01'",
    "SELECT AVG(date_diff('day', born, date)) AS d, AVG(date_diff('month', born, date)) AS m, "
    "AVG(date_diff('year', born, date)) AS y, AVG(date - born) AS e FROM visits JOIN patients "
    "USING (patient_id)",
    ("SELECT age_years(born, DATE '2026-01-01') // 10 * 10 AS decade, COUNT(*) AS n FROM patients "
     "GROUP BY decade",
     "SELECT date_sub('year', born, DATE '2026-01-01') // 10 * 10 AS decade, COUNT(*) FROM "
     "patients GROUP BY 1"),
    ("SELECT is_weekend(date) AS w, COUNT(*) AS n FROM visits GROUP BY w",
     "SELECT isodow(date) >= 6, COUNT(*) FROM visits GROUP BY 1"),
    # GROUP BY
    "SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS grp, "
    "COUNT(*) AS n, AVG(age) AS a FROM patients GROUP BY grp",
    "SELECT CASE WHEN cost > 500 THEN 'dear' WHEN cost <= 500 THEN 'cheap' END AS kind, ward, "
    "COUNT(*) AS n FROM visits GROUP BY 1, ward",
    "SELECT age // 10 AS decade, COUNT(*) AS n FROM patients GROUP BY age // 10",
    ("SELECT bin(cost, 250) AS b, COUNT(*) AS n FROM visits GROUP BY b",
    "SELECT FLOOR(cost / 250) * 250, COUNT(*) FROM visits GROUP BY 1"),
    "SELECT score > 0 AS positive, COUNT(*) AS n FROM visits GROUP BY positive",
    "SELECT sex, urgent, COUNT(*) AS n FROM visits JOIN patients USING (patient_id) GROUP BY sex, "
    "urgent",
    "SELECT COUNT(*) AS n, sex AS s FROM patients GROUP BY s",
    "SELECT ward, score + 1 AS s, COUNT(*) FROM visits GROUP BY ALL",
    "SELECT year(date) + 1 AS next, year(date) * 100 AS c, COUNT(*) AS n FROM visits GROUP BY "
    "year(date)",
    "SELECT diagnosis, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY diagnosis",
    "SELECT diagnosis, ward, COUNT(*) AS n FROM visits GROUP BY diagnosis, ward",
    "SELECT DISTINCT diagnosis FROM visits WHERE urgent",
    "SELECT DISTINCT ward, COUNT(*) AS n FROM visits GROUP BY ward",
    # grouping sets
    "SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, urgent)",
    "SELECT ward, urgent, GROUPING(ward) AS g, GROUPING(ward, urgent) AS h, SUM(cost) AS s FROM "
    "visits GROUP BY CUBE (ward, urgent)",
    "SELECT ward, year(date) AS y, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((ward, "
    "year(date)), (ward), ())",
    "SELECT ward, urgent, score, COUNT(*) AS n FROM visits GROUP BY urgent, ROLLUP (ward, (score))",
    "SELECT diagnosis, ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (diagnosis, ward)",
    # HAVING, ORDER BY, LIMIT
    "SELECT county, COUNT(*) AS n FROM visits GROUP BY county HAVING COUNT(*) > 26",
    "SELECT county, AVG(cost) AS a FROM visits GROUP BY county HAVING n > 26 AND county IS NOT "
    "NULL".replace("n > 26", "COUNT(*) > 26"),
    "SELECT county, COUNT(*) AS n FROM visits GROUP BY county HAVING n > 25 AND county <> 'other'",
    "SELECT date_trunc('year', date) AS y, COUNT(*) AS n FROM visits GROUP BY y HAVING y >= DATE "
    "'2025-01-01'",
    # joins
    "SELECT sex, COUNT(*) AS n FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP "
    "BY sex",
    "SELECT p.sex, SUM(v.cost) AS c FROM visits AS v INNER JOIN patients AS p ON p.patient_id = "
    "v.patient_id AND v.cost > 100 GROUP BY p.sex",
    "SELECT sex, COUNT(*) AS n, COUNT(v.visit_id) AS visits, COUNT(DISTINCT v.patient_id) AS seen, "
    "COUNT(v.cost) AS c FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id GROUP BY "
    "sex",
    "SELECT COUNT(*) AS never FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id "
    "WHERE v.patient_id IS NULL",
    "SELECT COUNT(*) AS never FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id "
    "AND v.urgent WHERE v.visit_id IS NULL",
    "SELECT drug, COUNT(*) AS n, SUM(dose) AS d FROM prescriptions r JOIN visits v ON r.visit_id = "
    "v.visit_id WHERE v.urgent GROUP BY drug",
    "SELECT v.ward, r.drug, COUNT(*) AS n FROM visits v JOIN prescriptions r ON v.visit_id = "
    "r.visit_id GROUP BY v.ward, r.drug",
    "SELECT sex, drug, COUNT(*) AS n FROM patients JOIN visits USING (patient_id) JOIN "
    "prescriptions USING (visit_id) GROUP BY sex, drug",
    "SELECT ward, COUNT(r.visit_id) AS n, COUNT(*) AS m FROM visits v LEFT JOIN prescriptions r ON "
    "v.visit_id = r.visit_id GROUP BY ward",
    "SELECT region, COUNT(*) AS n, AVG(beds) AS b FROM visits JOIN counties ON visits.county = "
    "counties.county GROUP BY region",
    "SELECT c.region, COUNT(*) AS n FROM counties c JOIN visits v ON c.county = v.county GROUP BY "
    "c.region",
    "SELECT region, COUNT(*) AS n FROM visits v LEFT JOIN counties c ON v.county = c.county GROUP "
    "BY region",
    "SELECT c.county, COUNT(*) AS n FROM visits v LEFT JOIN counties c ON v.county = c.county "
    "GROUP BY c.county",
    "SELECT COUNT(*) FROM visits v LEFT JOIN counties c ON v.county = c.county AND c.beds > 50 "
    "WHERE c.county IS NULL",
    "SELECT v.county, COUNT(*) AS n FROM visits v JOIN counties c USING (county) WHERE c.beds > 5 "
    "GROUP BY v.county",
    "SELECT COUNT(*) AS n, SUM(level) AS l FROM visits v JOIN stations s ON v.county = s.county",
    "SELECT COUNT(*) FROM counties c RIGHT JOIN visits v ON c.county = v.county",
    "SELECT c.county, COUNT(v.visit_id) AS n, SUM(v.cost) AS s FROM counties c LEFT JOIN visits v "
    "ON c.county = v.county GROUP BY c.county",
    "SELECT c.region, COUNT(v.patient_id) AS n FROM counties c LEFT JOIN visits v ON c.county = "
    "v.county AND v.urgent GROUP BY c.region",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.date = "
    "b.date",
    "SELECT COUNT(*) AS n, AVG(b.cost) AS c FROM visits a JOIN visits b ON a.patient_id = "
    "b.patient_id AND a.date < b.date WHERE a.ward = 'north'",
    "SELECT p.sex, COUNT(*) AS n FROM visits v JOIN patients p ON v.patient_id = p.patient_id LEFT "
    "JOIN counties c ON c.county = v.county WHERE c.beds IS NULL GROUP BY p.sex",
    "SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id WHERE "
    "v.cost IS NULL",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT p.patient_id, v.cost, v.patient_id AS q FROM "
    "patients p LEFT JOIN visits v ON p.patient_id = v.patient_id AND v.score > 0)",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT v.ward FROM patients p LEFT JOIN visits v ON "
    "p.patient_id = v.patient_id)",
    # IN and EXISTS
    "SELECT COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id FROM visits WHERE "
    "urgent)",
    "SELECT sex, COUNT(*) AS n FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE "
    "v.patient_id = p.patient_id AND v.cost > 300) GROUP BY sex",
    "SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = "
    "p.patient_id AND ward = 'north')",
    "SELECT COUNT(*) FROM patients WHERE patient_id NOT IN (SELECT patient_id FROM visits)",
    "SELECT COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id FROM visits GROUP BY "
    "patient_id HAVING COUNT(*) >= 3 AND SUM(cost) > 500)",
    "SELECT COUNT(*) FROM visits v WHERE county IN (SELECT county FROM counties WHERE beds > 5)",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM counties c WHERE c.county = "
    "v.county)",
    "SELECT COUNT(*) FROM visits WHERE county IN (SELECT county FROM stations)",
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits v WHERE EXISTS (SELECT 1 FROM stations "
    "s WHERE s.county = v.county) GROUP BY ward",
    "SELECT COUNT(*) FROM visits WHERE county IN (SELECT county FROM stations WHERE level > 1) AND "
    "cost > 400",
    "SELECT COUNT(*) FROM visits WHERE score IN (SELECT level FROM stations) AND county IN (SELECT "
    "county FROM stations)",
    "SELECT COUNT(*) FROM visits WHERE (county, score) IN (SELECT county, level FROM stations)",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM stations s WHERE s.county = "
    "v.county AND s.level > 0)",
    "SELECT COUNT(*) FROM visits WHERE score IN (SELECT LEAST(level, 2) FROM stations)",
    "SELECT COUNT(*) FROM visits v JOIN (SELECT DISTINCT county FROM stations) s ON v.county = "
    "s.county",
    "SELECT s.l, COUNT(*) AS n FROM visits v JOIN (SELECT DISTINCT county, LEAST(level, 1) AS l "
    "FROM stations) s ON v.county = s.county GROUP BY s.l",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM stations c WHERE c.county = "
    "v.county AND level = 1)",
    "SELECT COUNT(*) FROM visits WHERE visit_id IN (SELECT visit_id FROM prescriptions WHERE drug "
    "= 'a')",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM prescriptions r WHERE "
    "r.visit_id = v.visit_id)",
    "SELECT COUNT(*) FROM visits v WHERE v.diagnosis IN (SELECT w.diagnosis FROM visits w WHERE "
    "w.patient_id = v.patient_id AND w.urgent)",
    "SELECT COUNT(*) FROM patients p WHERE sex = 'f' OR EXISTS (SELECT 1 FROM visits v WHERE "
    "v.patient_id = p.patient_id AND score > 3)",
    "SELECT COUNT(*) FROM patients p WHERE age > 20 AND EXISTS (SELECT 1 FROM visits v WHERE "
    "v.patient_id = p.patient_id AND EXISTS (SELECT 1 FROM prescriptions r WHERE r.visit_id = "
    "v.visit_id AND r.dose > 5))",
    # subqueries
    "SELECT AVG(n) AS a, MAX(n) - MIN(n) AS r FROM (SELECT patient_id, COUNT(*) "
    "AS n FROM visits GROUP BY patient_id)".replace(", MAX(n) - MIN(n) AS r", ""),
    "SELECT n, COUNT(*) AS people FROM (SELECT patient_id, LEAST(COUNT(*), 5) AS n FROM visits "
    "GROUP BY patient_id) GROUP BY n",
    "SELECT AVG(total) AS a, STDDEV(total) AS s FROM (SELECT patient_id, SUM(cost) AS total FROM "
    "visits GROUP BY patient_id) WHERE total > 100",
    "SELECT sex, AVG(m) AS a FROM patients p JOIN (SELECT patient_id, AVG(cost) AS m, MAX(date) AS "
    "last FROM visits GROUP BY patient_id) t ON p.patient_id = t.patient_id WHERE last >= DATE "
    "'2025-01-01' GROUP BY sex",
    "SELECT sex, SUM(COALESCE(n, 0)) AS n, AVG(COALESCE(n, 0)) AS a FROM patients p LEFT JOIN "
    "(SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t USING (patient_id) GROUP "
    "BY sex",
    "SELECT sex, SUM(x) AS n FROM patients p LEFT JOIN (SELECT patient_id, COALESCE(cost, 7) AS x "
    "FROM visits) t ON p.patient_id = t.patient_id GROUP BY sex",
    "SELECT ward, AVG(n) AS a FROM (SELECT patient_id, ward, COUNT(*) AS n FROM visits GROUP BY "
    "patient_id, ward) GROUP BY ward",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, ward FROM visits)",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT diagnosis FROM visits)",
    "SELECT COUNT(*) AS n FROM (SELECT diagnosis, COUNT(*) AS k FROM visits GROUP BY diagnosis "
    "HAVING COUNT(*) > 20)",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT patient_id FROM visits WHERE urgent)",
    "WITH big AS (SELECT * FROM visits WHERE cost > 300), per AS (SELECT patient_id, COUNT(*) AS n "
    "FROM big GROUP BY patient_id) SELECT AVG(n) AS a, COUNT(*) AS c FROM per",
    "WITH v AS (SELECT ward AS w, cost * 1.1 AS gross FROM visits) SELECT w, SUM(gross) AS s FROM "
    "v GROUP BY w",
    "SELECT grp, COUNT(*) AS n FROM (SELECT CASE WHEN cost > 500 THEN 'dear' ELSE 'cheap' END AS "
    "grp, urgent FROM visits) WHERE urgent GROUP BY grp",
    "SELECT grp, AVG(n) AS a FROM (SELECT patient_id, CASE WHEN cost > 500 THEN 'dear' ELSE "
    "'cheap' END AS grp, COUNT(*) AS n FROM visits GROUP BY patient_id, grp) GROUP BY grp",
    "SELECT m, COUNT(*) AS n FROM (SELECT date_trunc('month', date) AS m, urgent FROM visits WHERE "
    "date < DATE '2025-01-01') GROUP BY m",
    "SELECT m, COUNT(*) AS people FROM (SELECT patient_id, date_trunc('quarter', date) AS m, "
    "COUNT(*) AS n FROM visits GROUP BY patient_id, m) WHERE n >= 2 GROUP BY m",
    "SELECT COUNT(*) AS n, COUNT(DISTINCT patient_id) AS p FROM (SELECT patient_id, date AS d FROM "
    "visits UNION ALL SELECT patient_id, born FROM patients)",
    "SELECT COUNT(*) AS n FROM (SELECT patient_id FROM visits UNION SELECT patient_id FROM "
    "patients)",
    "SELECT SUM(c) AS s, AVG(c) AS a, COUNT(c) AS n FROM (SELECT cost AS c FROM visits UNION ALL "
    "SELECT age FROM patients)",
    "SELECT ward AS a, COUNT(*) AS n FROM visits GROUP BY ROLLUP(ward, ward)",
    "SELECT ward AS a, ward AS b, COUNT(*) AS n FROM visits GROUP BY CUBE(ward, urgent)",
    "SELECT ward AS a, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS((ward),(ward),())",
    "SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP(ward), ROLLUP(ward, urgent)",
    "SELECT ward AS a, GROUPING(ward) AS g, COUNT(*) AS n FROM visits GROUP BY ward, ROLLUP(ward)",
    "SELECT k, COUNT(*) AS n FROM (SELECT c.county AS k FROM visits v JOIN counties c ON v.county "
    "= c.county UNION ALL SELECT ward FROM visits) GROUP BY k",
    "SELECT COUNT(*) AS n FROM (SELECT c.county AS k FROM visits v LEFT JOIN counties c ON "
    "v.county = c.county UNION ALL SELECT note FROM visits) WHERE k LIKE 'o%'",
    "SELECT COUNT(*) AS n FROM (SELECT diagnosis AS k FROM visits UNION ALL SELECT note FROM "
    "visits) WHERE k LIKE '%l%'",
    "SELECT k, COUNT(*) AS n FROM (SELECT county AS k FROM visits UNION ALL SELECT ward FROM "
    "visits) GROUP BY k",
    "SELECT COUNT(doctor_id) AS n, COUNT(visit_id) AS v, COUNT(patient_id) AS p, COUNT(*) AS a "
    "FROM visits",
    "SELECT ward, COUNT(doctor_id) FILTER (WHERE urgent) AS n FROM visits GROUP BY ward",
    "SELECT COUNT(*) AS n FROM visits WHERE doctor_id IS NULL",
    "SELECT COUNT(*) AS n FROM visits WHERE doctor_id IS NOT NULL AND visit_id IS NOT NULL AND "
    "patient_id IS NOT NULL",
    "SELECT sex, COUNT(v.doctor_id) AS n, COUNT(v.visit_id) AS m FROM patients p LEFT JOIN visits "
    "v ON p.patient_id = v.patient_id GROUP BY sex",
    "SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id WHERE "
    "v.doctor_id IS NULL",
    "SELECT AVG(n) AS a FROM (SELECT patient_id, COUNT(doctor_id) AS n FROM visits GROUP BY "
    "patient_id)",
    "SELECT AVG(n) AS a FROM (SELECT p.patient_id, COUNT(v.doctor_id) AS n FROM patients p LEFT "
    "JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.patient_id)",
    "SELECT COUNT(d) AS n FROM (SELECT doctor_id AS d FROM visits UNION ALL SELECT visit_id FROM "
    "prescriptions)",
    "SELECT SUM(c) AS s, COUNT(*) AS n FROM (SELECT age AS c FROM patients UNION ALL SELECT score "
    "FROM visits UNION ALL SELECT cost FROM visits)",
    "SELECT SUM(c) AS s FROM (SELECT urgent AS c FROM visits UNION ALL SELECT age FROM patients)",
    "SELECT SUM(c) AS s FROM (SELECT cost / 3 AS c FROM visits UNION ALL SELECT 7 FROM patients)",
    "SELECT k, COUNT(*) AS n FROM (SELECT ward AS k FROM visits UNION ALL SELECT drug FROM "
    "prescriptions) GROUP BY k",
    "SELECT k, COUNT(*) AS n FROM (SELECT sex AS k FROM patients UNION ALL SELECT CASE WHEN urgent "
    "THEN 'm' ELSE 'q' END FROM visits) GROUP BY k",
    "SELECT kind, COUNT(*) AS n, SUM(x) AS s FROM (SELECT 'visit' AS kind, cost AS x FROM visits "
    "UNION ALL SELECT 'drug', dose FROM prescriptions) GROUP BY kind",
    "SELECT COUNT(*) AS n FROM (SELECT ward AS k FROM visits UNION ALL SELECT note FROM visits) "
    "WHERE k LIKE 'n%'",
    "SELECT k, COUNT(*) AS n FROM (SELECT ward AS k, score AS x FROM visits UNION SELECT drug, "
    "dose FROM prescriptions) WHERE x > 1 GROUP BY k",
    "SELECT x, COUNT(*) AS n FROM (SELECT score AS x FROM visits UNION ALL SELECT dose FROM "
    "prescriptions) GROUP BY x",
    "SELECT SUM(c) AS s, COUNT(*) AS n FROM (SELECT cost AS c FROM visits WHERE urgent UNION ALL "
    "SELECT cost FROM visits WHERE ward = 'north') AS u",
    "SELECT COUNT(*) AS n FROM (SELECT patient_id, COUNT(cost) AS c, COUNT(DISTINCT ward) AS w, "
    "MIN(score) AS lo, COUNT_IF(urgent) AS u FROM visits GROUP BY patient_id) WHERE c >= 2 AND w "
    ">= 2 AND lo < 0 AND u > 0",
    "SELECT AVG(x) AS a, COUNT(x) AS n FROM (SELECT patient_id, SUM(score) AS x FROM visits GROUP "
    "BY 1)",
    # names, nesting and other corners
    'SELECT ward AS county, COUNT(*) AS n FROM visits GROUP BY ward',
    "SELECT upper(note) = 'OK' AS note2, COUNT(*) AS n FROM visits GROUP BY note2",
    'SELECT v.WARD, count(*) AS N FROM VISITS AS V GROUP BY V.ward HAVING N > 3',
    'SELECT "ward" AS "The Ward", COUNT(*) AS "how many" FROM "visits" GROUP BY "ward"',
    'SELECT w.ward, COUNT(*) AS n FROM (SELECT v.* FROM visits v WHERE urgent) w GROUP BY w.ward',
    'SELECT b, COUNT(*) AS n FROM (SELECT ward, urgent FROM visits) AS t(a, b) GROUP BY b',
    'WITH t(a, b) AS (SELECT ward, cost FROM visits) SELECT a, SUM(b) AS s FROM t GROUP BY a',
    'WITH visits2 AS (SELECT * FROM visits WHERE urgent), v3 AS (SELECT * FROM visits2 WHERE cost '
    '> 100) SELECT COUNT(*) AS n FROM v3 JOIN visits2 ON v3.visit_id = visits2.visit_id AND '
    'v3.patient_id = visits2.patient_id',
    'SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id LEFT '
    'JOIN prescriptions r ON v.visit_id = r.visit_id',
    'SELECT COUNT(*) AS n, COUNT(r.visit_id) AS m, COUNT(v.visit_id) AS k FROM patients p LEFT '
    'JOIN visits v ON p.patient_id = v.patient_id LEFT JOIN prescriptions r ON v.visit_id = '
    'r.visit_id',
    'SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id JOIN '
    'prescriptions r ON v.visit_id = r.visit_id',
    'SELECT sex, COUNT(v.cost) AS c, COUNT(DISTINCT v.ward) AS w FROM patients p LEFT JOIN (SELECT '
    '* FROM visits WHERE cost > 200) v USING (patient_id) GROUP BY sex',
    "SELECT COUNT(*) AS n FROM visits v LEFT JOIN counties c USING (county) WHERE c.county IS NOT "
    "NULL AND county <> 'ash'",
    'SELECT c.county, v.county AS vc, COUNT(*) AS n FROM visits v LEFT JOIN counties c ON v.county '
    '= c.county GROUP BY 1, 2',
    "SELECT x, COUNT(*) AS n FROM (SELECT CASE WHEN urgent THEN 'a' ELSE 'b' END AS x FROM visits) "
    "t WHERE x = 'a' GROUP BY x",
    "SELECT COUNT(*) AS n FROM (SELECT CASE WHEN urgent THEN 'a' ELSE 'b' END AS x FROM visits "
    "UNION ALL SELECT CASE WHEN cost > 5 THEN 'b' ELSE 'a' END FROM visits) t WHERE x = 'a'",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT patient_id, date_trunc('month', date) AS m FROM "
    "visits)",
    "SELECT m, COUNT(*) AS n FROM (SELECT DISTINCT patient_id, date_trunc('quarter', date) AS m "
    "FROM visits) GROUP BY m",
    "SELECT k, COUNT(*) AS n FROM (SELECT patient_id, CASE WHEN COUNT(*) > 3 THEN 'many' ELSE "
    "'few' END AS k FROM visits GROUP BY patient_id) GROUP BY k",
    "SELECT k, AVG(total) AS a FROM (SELECT patient_id, CASE WHEN COUNT(*) > 3 THEN 'many' ELSE "
    "'few' END AS k, SUM(cost) AS total FROM visits GROUP BY patient_id) GROUP BY k",
    'SELECT score, COUNT(*) AS n FROM visits GROUP BY score HAVING score > 0 OR score IS NULL',
    'SELECT score + 1 AS score, COUNT(*) AS n FROM visits GROUP BY visits.score',
    'SELECT AVG(score) AS score, ward FROM visits GROUP BY ward HAVING AVG(score) > -1',
    'SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND '
    'a.doctor_id = b.doctor_id',
    'SELECT COUNT(*) AS n FROM visits v WHERE v.patient_id IN (SELECT p.patient_id FROM patients p '
    'WHERE p.age > 50) AND v.patient_id NOT IN (SELECT patient_id FROM visits WHERE score = 5)',
    'SELECT COUNT(*) AS n FROM patients p WHERE EXISTS (SELECT * FROM visits WHERE '
    'visits.patient_id = p.patient_id)',
    "SELECT COUNT(*) AS n FROM visits WHERE date BETWEEN DATE '2024-06-01' AND DATE '2025-06-01'",
    "SELECT COUNT(*) AS n FROM visits WHERE date IN (DATE '2024-06-01', '2025-06-01')",
    "SELECT COUNT(*) AS n FROM visits WHERE seen BETWEEN '2024-06-01' AND '2025-06-01 12:00:00'",
    "SELECT COUNT(*) AS n FROM visits WHERE seen > DATE '2025-06-01'",
    'SELECT SUM(cost) FILTER (WHERE urgent) / SUM(cost) AS share, COUNT(*) FILTER (WHERE cost IS '
    'NULL) AS m FROM visits',
    'SELECT STDDEV(cost) FILTER (WHERE urgent) AS s, CORR(cost, score) FILTER (WHERE NOT urgent) '
    'AS c FROM visits',
    'SELECT ward, SUM(cost) AS s FROM visits GROUP BY ward HAVING s > 1000 AND COUNT(*) BETWEEN 3 '
    'AND 100',
    'SELECT AVG(cost) - AVG(cost) FILTER (WHERE urgent) AS d FROM visits',
    "SELECT COUNT(*) AS n FROM visits WHERE ward = 'north' IS TRUE",
    'SELECT COUNT(*) AS n FROM visits WHERE -score > 2 AND +score < 3',
    'SELECT SUM(score / 2) AS s, SUM(cost / 3) AS t, SUM(score // 2) AS u, SUM(score % 3) AS m '
    'FROM visits',
    'SELECT SUM(TRUNC(cost)) AS a, SUM(SIGN(score)) AS b FROM visits',
    "SELECT COUNT(*) AS n FROM visits WHERE county = 'other'",
    'SELECT urgent, score > 0 AS p, COUNT(*) AS n FROM visits GROUP BY ROLLUP (urgent, p)',
    'SELECT COUNT(*) AS n FROM (SELECT patient_id FROM visits WHERE urgent UNION SELECT patient_id '
    'FROM patients WHERE age > 30) t JOIN patients p ON p.patient_id = t.patient_id',
    'SELECT sex, AVG(n) AS a FROM (SELECT p.patient_id, p.sex, COUNT(v.visit_id) AS n FROM '
    'patients p LEFT JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.patient_id, p.sex) '
    'GROUP BY sex',
    'SELECT sex, AVG(n) AS a FROM (SELECT p.patient_id, p.sex, SUM(CASE WHEN v.urgent THEN 1 ELSE '
    '0 END) AS n FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id GROUP BY '
    'p.patient_id, p.sex) GROUP BY sex',
    'SELECT region, COUNT(DISTINCT v.patient_id) AS n FROM visits v JOIN counties c ON c.county = '
    'v.county AND c.beds > 0 GROUP BY region',
    'SELECT COUNT(*) AS n FROM visits v JOIN (SELECT county, beds FROM counties WHERE beds < 500) '
    'c ON v.county = c.county',
    'SELECT COUNT(*) AS n FROM visits v JOIN counties ON counties.county = v.county JOIN stations '
    's ON s.county = v.county',
    'SELECT year(date) AS y, month(date) AS m, COUNT(*) AS n FROM visits WHERE year(date) = 2025 '
    'GROUP BY 1, 2',
    "SELECT date_diff('week', DATE '2024-01-03', date) AS w, COUNT(*) AS n FROM visits WHERE date "
    "< DATE '2024-03-01' GROUP BY w",
    'SELECT dayofyear(date) > 100 AS d, last_day(date) = date AS l, COUNT(*) AS n FROM visits '
    'GROUP BY 1, 2',
    'SELECT COUNT(*) AS n FROM (SELECT patient_id, MIN(date) AS a, MAX(date) AS b FROM visits '
    'GROUP BY patient_id) WHERE b - a > 300',
    'SELECT ward, COUNT(*) * 100.0 / 50 AS pct, SUM(score) + 0.5 AS s FROM visits GROUP BY ward',
    'SELECT IF(COUNT(*) > 10, 1, 0) AS x, COALESCE(NULL, AVG(cost)) AS y FROM visits',
    'SELECT t.n AS n, COUNT(*) AS c FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY '
    'patient_id ORDER BY 2) t GROUP BY t.n',
    '(SELECT COUNT(*) AS n FROM visits)',
    'SELECT COUNT(*) AS n FROM (visits v JOIN patients p ON v.patient_id = p.patient_id)',
    'SELECT COUNT(cost) AS a, COUNT(ALL cost) AS b FROM visits',
    'SELECT SUM(ALL cost) AS b FROM visits',
    'SELECT ALL COUNT(*) AS b FROM visits',
    'SELECT COUNT(*) AS n FROM visits WHERE score IN (1) IS NULL',
    'SELECT COUNT(*) AS n FROM visits WHERE CAST(score AS BOOLEAN)',
    'SELECT COUNT(*) AS n FROM visits WHERE urgent IS NOT TRUE OR urgent IS NULL',
    "SELECT COUNT(DISTINCT CASE WHEN urgent THEN ward END) AS n, COUNT(DISTINCT CASE WHEN cost > 3 "
    "THEN 'x' ELSE 'y' END) AS m FROM visits",
    'SELECT SUM(score) AS s FROM visits GROUP BY ()',
    "SELECT SUM(date_diff('week', date, DATE '2025-01-03')) AS a, SUM(date_diff('week', DATE "
    "'2025-01-03', date)) AS b FROM visits",
    # answers rearranged
    "SELECT county, n FROM (SELECT county, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY "
    "county) t WHERE n > 26 AND c > 400",
    "SELECT ward, total / n AS each, ROUND(n / 2.0) AS half FROM (SELECT ward, SUM(cost) AS total, "
    "COUNT(*) AS n FROM visits GROUP BY ward)",
    "WITH a AS (SELECT year(date) AS y, COUNT(*) AS n FROM visits GROUP BY 1) SELECT y + 1 AS "
    "next, n FROM a WHERE y >= 2025",
    "WITH a AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY 1), b AS (SELECT ward AS w, n * 2 "
    "AS m FROM a) SELECT * FROM b WHERE m > 60",
    "SELECT AVG(x) AS a, COUNT(x) AS n FROM (SELECT patient_id, SUM(score) FILTER (WHERE score > "
    "3) AS x, COUNT(*) FILTER (WHERE urgent) AS u FROM visits GROUP BY 1) WHERE u < 3",
    # bounds narrowed by choices, and keys derived from few values
    "SELECT SUM(cost) AS a, AVG(cost) AS b FROM visits WHERE score IN (1, 2) OR score = -3",
    "SELECT SUM(CASE WHEN score < 2 THEN score END) AS a, SUM(score) FILTER (WHERE score >= 0) AS "
    "b, SUM(CASE WHEN NOT (score > 1 OR score < -2) THEN score * 2 ELSE 7 END) AS c FROM visits",
    "SELECT date, COUNT(*) AS n, SUM(score) AS s FROM visits WHERE date >= DATE '2026-03-01' AND "
    "date < DATE '2026-04-15' GROUP BY date",
    "SELECT FLOOR(cost / 50) * 50 AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT 10 * CAST(FLOOR(age / 10) AS INTEGER) AS k, COUNT(*) AS n FROM patients GROUP BY k",
    "SELECT COALESCE(ward, 'none') AS w, COUNT(*) AS n FROM visits GROUP BY w",
    "SELECT UPPER(sex) AS s, COUNT(*) AS n FROM patients GROUP BY s",
    "SELECT CASE WHEN ward = 'north' THEN 'up' ELSE ward END AS w, AVG(cost) AS a FROM visits "
    "GROUP "
    "BY w",
    "SELECT LOWER(REPLACE(drug, 'a', 'X')) AS d, COUNT(*) AS n FROM prescriptions GROUP BY d",
    "SELECT AVG(a) AS m FROM (SELECT date, AVG(score) AS a FROM visits GROUP BY date)",
    "SELECT AVG(n) AS m, SUM(LEAST(n, 3)) AS s FROM (SELECT date, COUNT(*) AS n FROM visits GROUP "
    "BY date) WHERE date > DATE '2026-02-01'",
    "SELECT SUM(r) AS s FROM (SELECT patient_id, COUNT_IF(urgent) / COUNT(*) AS r FROM visits "
    "GROUP "
    "BY patient_id)",
    "SELECT CORR(cost, score) AS c, REGR_SLOPE(cost, score) AS s, COVAR_POP(score, cost) AS v FROM "
    "visits",
    "SELECT sex, COUNT(*) AS n, COUNT(DISTINCT p.patient_id) AS u FROM patients p LEFT JOIN visits "
    "v ON p.patient_id = v.patient_id LEFT JOIN prescriptions r ON r.visit_id = v.visit_id GROUP "
    "BY "
    "sex",
]  # fmt: skip


@pytest.fixture(scope="module")
def clinic():
    with clinic_sql.registered() as found:
        yield found


@pytest.fixture(scope="module")
def small_clinic():
    with clinic_sql.registered(10) as found:
        yield found


def plain(value):
    if isinstance(value, (Fraction, decimal.Decimal, bool, int, float)):
        return float(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date()
    return value


def close(ours, theirs) -> bool:
    """Equal but for floats; a sum or an average of nothing is null in SQL, and 0 or undefined
    here."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=2e-6, abs_tol=2e-5)
    return ours == theirs or (theirs is None and ours == 0)


def alike(ours, theirs) -> bool:
    return len(ours) == len(theirs) and all(map(close, ours, theirs))


def check(ours_sql: str, theirs_sql: str, clinic) -> None:
    """Ours and DuckDB's answers are the same, but for keys that nobody has."""
    found, connection = clinic
    recipe = bind(ours_sql, found.catalog, found.facts)
    names = [output.name for output in recipe.outputs]
    theirs = [tuple(map(plain, row)) for row in connection.execute(theirs_sql).fetchall()]
    rows = [
        (row["_empty"], tuple(plain(row[name]) for name in names))
        for row in clinic_sql.answers(recipe, found)
    ]
    for expected in theirs:
        assert any(alike(row, expected) for _, row in rows), (ours_sql, expected, rows[:20])
    for empty, row in rows:
        assert empty or any(alike(row, expected) for expected in theirs), (ours_sql, row, theirs)
    assert sum(not empty for empty, _ in rows) <= len(theirs) <= len(rows)


@pytest.mark.parametrize(
    "question",
    mark_between([(question,) for question in QUESTIONS], step=3),
    ids=[q if isinstance(q, str) else q[0] for q in QUESTIONS],
)
def test_a_question_means_what_duckdb_says(question, clinic):
    ours, theirs = (question, question) if isinstance(question, str) else question
    assert clinic[1].execute(theirs).fetchall(), "a question about nothing tests nothing"
    check(ours, theirs, clinic)


def asked(maker: Maker, count: int, clinic) -> None:
    """Questions of the grammar; two keys that mean the same are seldom drawn for one ROLLUP, and
    refused."""
    refused = 0
    for _ in range(count):
        question = maker.question()
        try:
            check(question, question, clinic)
        except QueryError as error:
            assert "one key under two names" in str(error), question
            refused += 1
    assert refused <= count / 10


@pytest.mark.parametrize("seed", mark_rest(range(5), quick=2))
def test_questions_of_a_grammar_mean_what_duckdb_says(seed, small_clinic):
    asked(Maker(seed), 10, small_clinic)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_questions_of_a_grammar_mean_what_duckdb_says(seed, small_clinic):
    asked(Maker(seed), 200, small_clinic)


ORDERED = [
    "SELECT * FROM (SELECT county, COUNT(*) AS n FROM visits GROUP BY county) ORDER BY n DESC "
    "LIMIT 2",
    "SELECT county, COUNT(*) AS n FROM visits GROUP BY county ORDER BY n DESC LIMIT 3",
    "SELECT county, COUNT(*) AS n FROM visits WHERE county IS NOT NULL GROUP BY county HAVING "
    "COUNT(*) > 0 ORDER BY county",
    "SELECT ward, AVG(cost) AS a FROM visits GROUP BY ward ORDER BY 2 LIMIT 2 OFFSET 1",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward DESC NULLS FIRST",
    "SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ward, urgent ORDER BY urgent, "
    "SUM(cost) / COUNT(*) DESC",
    "SELECT ward, score, COUNT(*) AS n FROM visits GROUP BY ward, score ORDER BY -COUNT(*), score "
    "NULLS LAST, ward LIMIT 5",
]


@pytest.mark.parametrize("question", ORDERED)
def test_order_and_limit_act_on_the_answer(question, clinic):
    found, connection = clinic
    recipe = bind(question, found.catalog, found.facts)
    names = [output.name for output in recipe.outputs]
    ours = [tuple(plain(row[name]) for name in names) for row in clinic_sql.answers(recipe, found)]
    theirs = [tuple(map(plain, row)) for row in connection.execute(question).fetchall()]
    assert len(ours) == len(theirs) and all(map(alike, ours, theirs)), (ours, theirs)


def test_avg_sum_and_count_of_one_column_share_one_sum_and_one_count(clinic):
    found, _ = clinic
    recipe = bind(
        "SELECT AVG(age), SUM(age), COUNT(age), COUNT(*), VARIANCE(age) FROM patients".replace(
            ", COUNT(*)", ", COUNT(*) AS n"
        ),
        found.catalog,
        found.facts,
    )
    (query,) = recipe.queries
    kinds = query.columns
    assert len(kinds) == 3  # one (centred) sum, one count, and the squares
    assert kinds.count(Count()) == 1 and sum(isinstance(kind, Sum) for kind in kinds) == 2


def sums_of(recipe):
    """Every sum of a question as a query of its own."""
    (query,) = recipe.queries
    return [
        Cells(query.plan, query.keys, (column,))
        for column in query.columns
        if isinstance(column, Sum)
    ]


def test_a_sum_beside_a_count_is_made_from_the_centred_one(clinic):
    """SUM(x) = m COUNT + SUM(x - m): at one price its variance is half^2 + m^2 against max(L^2,
    U^2)."""
    from dither.plan.of_catalog import sensitivity

    found, _ = clinic
    alone = bind("SELECT SUM(age) AS s FROM patients", found.catalog, found.facts)
    beside = bind("SELECT SUM(age) AS s, COUNT(*) AS n FROM patients", found.catalog, found.facts)
    sums = [column for recipe in (alone, beside) for column in sums_of(recipe)]
    assert [sensitivity(query, found.catalog, found.facts).l1 for query in sums] == [110, 55]
    assert [len(query.columns) for query in beside.queries] == [2] and beside.atoms[
        0
    ].importance == 55


def test_averages_are_centred_so_that_noise_follows_the_width_of_the_bounds(clinic):
    from dither.plan.of_catalog import sensitivity

    found, _ = clinic
    recipe = bind(
        "SELECT AVG(age) FROM patients WHERE age BETWEEN 60 AND 80", found.catalog, found.facts
    )
    assert [sensitivity(query, found.catalog, found.facts).l1 for query in sums_of(recipe)] == [10]
    count = next(atom for atom in recipe.atoms if atom.aggregate == "COUNT(*)")
    assert count.importance == 10


def test_quantiles_of_one_column_are_one_query(clinic):
    found, _ = clinic
    recipe = bind(
        "SELECT MEDIAN(cost), MAX(cost), QUANTILE(cost, 0.25), MEDIAN(score) FROM visits",
        found.catalog,
        found.facts,
    )
    shares = [query.shares for query in recipe.queries if isinstance(query, Quantiles)]
    assert shares == [(Fraction(1, 4), Fraction(1, 2), Fraction(99, 100)), (Fraction(1, 2),)]
    assert recipe.sets[0].positions == ((0, 1), (0, 2), (0, 0), (1, 0))
    assert (
        recipe.outputs[1].note
        == "MAX is the 99% quantile, found privately: the exact one is one person's value"
    )


def test_undeclared_keys_are_selected_and_limited(clinic):
    found, _ = clinic
    recipe = bind(
        "SELECT diagnosis, ward, COUNT(*) FROM visits GROUP BY ROLLUP (diagnosis, ward)",
        found.catalog,
        found.facts,
        max_groups=2,
    )
    both, one, none = recipe.sets
    limited = recipe.queries[both.selection].plan
    assert (
        isinstance(limited, LimitGroups)
        and limited.keys == ("diagnosis", "ward")
        and limited.groups == 2
    )
    assert isinstance(recipe.queries[both.selection], Keys) and recipe.queries[
        both.selection
    ].keys == ("diagnosis",)
    assert recipe.queries[one.selection].plan.keys == ("diagnosis",) and none.selection is None
    assert "at most 2 groups per person" in recipe.atoms[0].limits
    assert (
        bind("SELECT diagnosis, COUNT(*) FROM visits GROUP BY 1", found.catalog, found.facts)
        .sets[0]
        .selection
        is not None
    )


def test_the_limited_groups_of_a_person_are_what_is_counted(clinic):
    found, _ = clinic
    recipe = bind(
        "SELECT ward, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY ward",
        found.catalog,
        found.facts,
        max_groups=1,
    )
    assert sum(row["n"] for row in clinic_sql.answers(recipe, found)) == len(
        {row["owner"] for row in found.oracle.tables["visits"]}
    )


def test_every_recipe_is_the_same_after_a_trip_through_json(small_clinic):
    """A recipe crosses a wire: what comes out has the same parts, and queries with the same
    hashes."""
    found, _ = small_clinic
    for question in QUESTIONS:
        recipe = bind(
            question if isinstance(question, str) else question[0], found.catalog, found.facts
        )
        text = canonical.dumps(write_recipe(recipe))
        read = read_recipe(read_json(text))
        assert read == recipe
        assert [query.hash for query in read.queries] == [query.hash for query in recipe.queries]
        assert canonical.dumps(write_recipe(read)) == text


def test_the_engine_measures_what_the_oracle_counts(small_clinic):
    """Every plan that a question above makes is lowered, run, and compared cell by cell."""
    found, _ = small_clinic
    cells: dict = {}
    for question in QUESTIONS:
        recipe = bind(
            question if isinstance(question, str) else question[0], found.catalog, found.facts
        )
        for query in recipe.queries:
            if isinstance(query, Cells):
                cells.setdefault((query.plan, query.keys), {}).update(dict.fromkeys(query.columns))
            else:
                found.measurer.prepare(query)
    for (plan, keys), columns in cells.items():
        query = Cells(plan, keys, tuple(columns))
        expected = {key: cell for key, cell in grouped(query, found.oracle).items() if any(cell)}
        assert clinic_sql.engine_cells(query, found) == expected, query
    assert len(cells) > 130


def _no_negation(monkeypatch):
    monkeypatch.setattr(expressions, "negate_flagged", lambda value, node, scope: value)


def _pairs_with_nulls(monkeypatch):
    made = aggregates.Centred.__init__
    monkeypatch.setattr(
        aggregates.Centred,
        "__init__",
        lambda self, value, words, question, others=(): made(self, value, words, question),
    )


def _sum_of_nothing(monkeypatch):
    monkeypatch.setattr(per_unit, "_filter_value", lambda chosen, value: value)


def _computed_after_the_join(monkeypatch):
    monkeypatch.setattr(joins, "compute_fields", lambda relation, context: relation)


PLANTED = [
    (_no_negation, "SELECT COUNT(*) FROM visits WHERE note NOT LIKE 'o%'"),
    (_pairs_with_nulls, "SELECT COVAR_POP(cost, score) AS a FROM visits"),
    (_sum_of_nothing,
    "SELECT AVG(x) AS a FROM (SELECT patient_id, SUM(score) FILTER (WHERE urgent) AS x "
        "FROM visits GROUP BY 1)"),
    (_computed_after_the_join,
    "SELECT sex, SUM(x) AS n FROM patients p LEFT JOIN (SELECT patient_id, COALESCE(cost, "
        "7) AS x FROM visits) t ON p.patient_id = t.patient_id GROUP BY sex"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plant", "question"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED]
)
def test_a_planted_misreading_is_seen(plant, question, clinic, monkeypatch):
    check(question, question, clinic)
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check(question, question, clinic)
