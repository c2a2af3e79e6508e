"""Questions to the stored hospital: every plan operator and mechanism in pots that add epsilons."""

from __future__ import annotations

from fractions import Fraction

from dither.plan.algebra import Cells, Count, SampleUnits, Scan
from tests.state.question_forms import ask, build, request, suggest
from tests.state.state_questions_of_functions import FUNCTIONS

ROWS = (
    ask(
        "count by county",
        "plain",
        "SELECT county, COUNT(*) AS n FROM visits GROUP BY county",
        epsilon=1,
    ),
    ask(
        "two sums in a box",
        "plain",
        "SELECT COUNT(*) AS n, SUM(score) AS s FROM visits",
        epsilon=2,
    ),
    ask(
        "an average",
        "plain",
        "SELECT sex, AVG(salary) AS mean FROM patients GROUP BY sex",
        epsilon="0.5",
    ),
    ask(
        "many numbers",
        "plain",
        """SELECT COUNT(*) AS n, COUNT(score) AS scored, SUM(cost) AS paid,
        COUNT(DISTINCT county) AS counties, COUNT(DISTINCT person) AS people FROM visits""",
        epsilon=3,
    ),
    ask(
        "weights",
        "plain",
        "SELECT COUNT(*) AS n, SUM(cost) AS paid FROM visits",
        epsilon=1,
        weights={"n": 3},
    ),
    ask(
        "moments",
        "plain",
        "SELECT VARIANCE(score) AS v, STDDEV(cost) AS s FROM visits",
        epsilon=4,
    ),
    ask(
        "two columns",
        "plain",
        "SELECT CORR(score, cost) AS c, COVAR_POP(score, cost) AS k FROM visits",
        epsilon=4,
    ),
    ask(
        "conditions",
        "plain",
        """SELECT COUNT(*) AS n FROM visits WHERE (score IS NULL OR NOT urgent)
        AND day >= DATE '2024-02-01' AND cost * 2 > 5 AND county <> 'elm'""",
        epsilon=1,
    ),
    ask(
        "projection",
        "plain",
        """SELECT k, AVG(c) AS mean FROM (SELECT cost * 2 AS c,
        CASE WHEN score > 0 THEN 'high' ELSE 'low' END AS k FROM visits) GROUP BY k""",
        epsilon=1,
    ),
    ask(
        "sets of keys",
        "plain",
        "SELECT county, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (county, urgent)",
        epsilon=1,
    ),
    ask(
        "months of dates",
        "plain",
        """SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM visits
        GROUP BY m ORDER BY n DESC LIMIT 3""",
        epsilon=1,
    ),
    ask(
        "hours of times",
        "plain",
        "SELECT EXTRACT(HOUR FROM seen) AS h, COUNT(*) AS n FROM visits GROUP BY h",
        epsilon=1,
    ),
    ask(
        "noisy conditions",
        "plain",
        """SELECT county, COUNT(*) AS n FROM visits GROUP BY county
        HAVING COUNT(*) > 2 ORDER BY n DESC""",
        epsilon="1.5",
    ),
    ask(
        "limited groups",
        "plain",
        "SELECT county, COUNT(*) AS n FROM visits GROUP BY county",
        epsilon=1,
        max_groups=1,
    ),
)

TABLES = (
    ask(
        "private inner join",
        "plain",
        "SELECT sex, COUNT(*) AS n FROM visits JOIN patients USING (person) GROUP BY sex",
        epsilon=1,
    ),
    ask(
        "private left join",
        "plain",
        """SELECT sex, COUNT(visit) AS n FROM patients LEFT JOIN visits USING (person)
        GROUP BY sex""",
        epsilon=1,
    ),
    ask(
        "three tables",
        "plain",
        """SELECT drug, SUM(qty) AS q FROM items JOIN visits USING (visit)
        JOIN patients USING (person) WHERE sex = 'f' GROUP BY drug""",
        epsilon=2,
    ),
    ask(
        "public inner join",
        "plain",
        "SELECT region, COUNT(*) AS n FROM visits JOIN counties USING (county) GROUP BY region",
        epsilon=1,
    ),
    ask(
        "public left join",
        "plain",
        """SELECT region, COUNT(*) AS n FROM visits LEFT JOIN counties USING (county)
        GROUP BY region""",
        epsilon=1,
    ),
    ask(
        "public rows first",
        "plain",
        """SELECT counties.county, COUNT(visits.visit) AS n FROM counties
        LEFT JOIN visits ON counties.county = visits.county GROUP BY counties.county""",
        epsilon=1,
    ),
    ask(
        "public rows several times",
        "plain",
        "SELECT level, COUNT(*) AS n FROM visits JOIN wards USING (county) GROUP BY level",
        epsilon=1,
    ),
    ask(
        "union of rows",
        "plain",
        """SELECT COUNT(*) AS n, SUM(x) AS s FROM (SELECT person, score AS x FROM visits
        UNION ALL SELECT person, CAST(salary / 100000 AS INTEGER) AS x FROM patients)""",
        epsilon=2,
    ),
    ask(
        "distinct per person",
        "plain",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT person, county FROM visits)",
        epsilon=1,
    ),
    ask(
        "distinct of all",
        "plain",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT county, urgent FROM visits)",
        epsilon=1,
    ),
    ask(
        "per person",
        "plain",
        """SELECT AVG(n) AS rows, SUM(low) AS lows, SUM(high) AS highs, SUM(c) AS places
        FROM (SELECT person, LEAST(COUNT(*), 3) AS n, MIN(score) AS low, MAX(score) AS high,
        COUNT(DISTINCT county) AS c FROM visits GROUP BY person)""",
        epsilon=4,
    ),
    ask(
        "grouped rows",
        "plain",
        """SELECT COUNT(*) AS n FROM (SELECT county, urgent, COUNT(*) AS m
        FROM visits GROUP BY county, urgent)""",
        epsilon=1,
    ),
    ask(
        "rows in a list",
        "plain",
        """SELECT COUNT(*) AS n FROM visits WHERE visit IN (SELECT visit FROM items
        WHERE items.visit = visits.visit AND qty > 2)""",
        epsilon=1,
    ),
    ask(
        "rows that exist",
        "plain",
        """SELECT COUNT(*) AS n FROM patients WHERE EXISTS (SELECT 1 FROM visits
        WHERE visits.person = patients.person AND urgent)""",
        epsilon=1,
    ),
    ask(
        "rows that do not exist",
        "plain",
        """SELECT COUNT(*) AS n FROM patients WHERE NOT EXISTS (SELECT 1
        FROM visits WHERE visits.person = patients.person AND score > 3)""",
        epsilon=1,
    ),
    ask(
        "another dialect",
        "total",
        """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=3, delta=1e-5,
        max_groups_contributed=2, privacy_unit_column=person) county,
        COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM visits GROUP BY county""",
    ),
    request(
        "a sample of people",
        "plain",
        Cells(SampleUnits(Scan("patients"), Fraction(1, 2)), ("sex",), (Count(),)),
    ),
)

VALUES = (
    ask(
        "a median",
        "plain",
        "SELECT MEDIAN(cost) AS m FROM visits",
        epsilon=1,
        quantile_intervals=False,
    ),
    ask(
        "a median with ends",
        "plain",
        "SELECT county, MEDIAN(cost) AS m FROM visits GROUP BY county",
        epsilon=2,
    ),
    ask(
        "joint quantiles",
        "plain",
        """SELECT QUANTILE_CONT(cost, 0.25) AS low, QUANTILE_CONT(cost, 0.75) AS high
        FROM visits""",
        epsilon=2,
        quantile_intervals=False,
    ),
    ask(
        "joint quantiles with ends",
        "plain",
        """SELECT QUANTILE_CONT(score, 0.1) AS low, QUANTILE_CONT(score, 0.9) AS high
        FROM visits""",
        epsilon=3,
        quantile_intervals="1/3",
    ),
    suggest("bounds", "plain", "bounds", "visits.cost", epsilon=2, keep="0.9"),
    suggest("rows per unit", "plain", "rows_per_unit", "visits", epsilon=1),
    suggest("groups per unit", "plain", "max_groups", "visits.county", epsilon=1),
    build(
        "built",
        "plain",
        "visits",
        ("where", ["score >= 0", "urgent"]),
        ("group_by", ["county"]),
        ("agg", {"n": "COUNT(*)", "paid": "SUM(cost)"}),
        ("order_by", ["n DESC"]),
        epsilon=2,
    ),
    ask(
        "undeclared keys",
        "total",
        "SELECT diag, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY diag",
        epsilon=20,
    ),
    ask(
        "undeclared and declared keys",
        "total",
        "SELECT diag, urgent, COUNT(*) AS n FROM visits GROUP BY diag, urgent",
        epsilon=20,
    ),
    ask(
        "a quantile by undeclared keys",
        "total",
        "SELECT diag, MEDIAN(score) AS m FROM visits GROUP BY diag",
        epsilon=20,
    ),
    ask(
        "Gaussian at a delta",
        "total",
        """SELECT county, urgent, score, COUNT(*) AS n, SUM(weight) AS w FROM visits
        GROUP BY county, urgent, score""",
        epsilon=2,
    ),
    ask("asked twice", "total", "SELECT COUNT(*) AS n FROM items", epsilon="0.1"),
    ask("reissued", "total", "SELECT COUNT(*) AS n FROM items WHERE qty > 3", epsilon="0.25"),
    ask("a part", "women", "SELECT COUNT(*) AS n FROM patients WHERE sex = 'f'", epsilon="0.5"),
    ask(
        "a part with visits",
        "men",
        """SELECT COUNT(*) AS n FROM (SELECT person FROM patients WHERE sex = 'm') AS p
        JOIN visits USING (person)""",
        epsilon="0.5",
    ),
)

HOSPITAL = (*ROWS, *FUNCTIONS, *TABLES, *VALUES)
