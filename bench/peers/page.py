"""docs/reference/peers.md and its plots, written from the newest dated results file: no figure is
typed by hand.

python bench/peers/page.py
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
PLAIN = "DuckDB, no privacy"
HEAD = """\
# The peers side by side

What the same question costs in other libraries for differential privacy: time, memory and error,
on one machine, at one price. Measured {date} on {cores} cores and {memory} GiB, Python
{python}{load}; every figure on this page is written from `bench/peers/{file}` by
`bench/peers/page.py`. Measure it yourself:

```sh
python bench/peers/run.py            # an environment for each peer, then about twenty minutes
python bench/peers/run.py --quick    # 100,000 rows
python bench/peers/page.py           # writes this page again
```

## The work

A table of owners with 8 rows each: a key out of 100, as if drawn at random, and an amount in [0,
1000] with two decimals, skewed. Asked are COUNT, SUM and AVG by the 100 public keys, and the
median of the whole, each for a total of epsilon 1 towards one owner, everything asked included
(delta 1e-6 where a library needs one). An owner with at most 10 rows counts in full, wherever the
rows lie.

That last rule decides about noise: ten rows in one key move the answers by as much in L2 as in L1,
and then Laplace noise is smaller than Gaussian noise at this price. Who promises at most one row
of an owner *per key* may use Gaussian noise in OpenDP, PipelineDP, PyDP or Tumult and get a
smaller error; that is another promise, and on this table it loses rows.

"Load" brings the file to where the library wants it, once: reading into memory, into SQLite for
SmartNoise, a cached Spark table, and for dither the registration, which also enforces the ten rows
per owner. The others enforce them in every answer; a part of our speed is that we do it once, and
a part of our load is that too. "Load and first" is what somebody waits who asks one question only.
"Answer" is the median over the repetitions of one process. Memory is the peak of the process and
its children.
"""
STRENGTHS = {
    "Qrlew": "rewrites SQL into SQL, so the data stay in their database and joins along keys keep "
    "their owner; the "
    "rewritten question can be read before it runs.",
    "OpenDP": "every part is proven and checked in the open, with many measures of privacy and "
    "metrics; the most careful "
    "about floating point. Parts that we use as a judge of our own numbers.",
    "SmartNoise SQL": "the SQL of the engine that one has (Postgres, SQL Server, Spark, BigQuery "
    "and more); synthesizers beside it.",
    "PyDP": "Google's C++ building blocks as objects: small, quick, no framework. Composition and "
    "limits are the caller's.",
    "PipelineDP": "the same code on Beam and Spark clusters, private key selection, and a utility "
    "analysis; it centres sums "
    "before noise, which halves it.",
    "Tumult Analytics": "sessions with budgets over Spark, built for tables that no single "
    "machine holds: two cores and a "
    "million rows are not its place.",
}


def newest() -> Path:
    return max(HERE.glob("results-[0-9]*.json"))


def page(results: dict[str, Any], file: str) -> str:
    machine = results["machine"]
    busiest = max(line["machine_load"] for line in results["lines"])
    load = f", load average up to {busiest:.1f} before a run (the run before it included)"
    if busiest > 2.5:
        load += ": other work may have been on the machine, so read times with care"
    facts = {
        "cores": machine["cores"],
        "memory": machine["memory_gib"],
        "python": machine["python"],
        "load": load,
    }
    sections = [HEAD.format(date=results["date"], file=file, **facts)]
    for rows in sorted({line["rows"] for line in results["lines"]}):
        sections.append(f"## COUNT, SUM and AVG by 100 keys, {rows:,} rows\n")
        sections.append(keys_table(lines_of(results, "keys", rows)))
        if absent := unasked(results, rows):
            sections.append(
                f"Not asked at this size, since at 1,000,000 rows it took more than 20 s or gave "
                f"no answer: {', '.join(absent)}.\n"
            )
        if rows == 1_000_000:
            for what, words in (
                ("time", "Seconds for an answer"),
                ("memory", "Peak memory"),
                ("error", "RMSE of SUM"),
            ):
                sections.append(f"![{words}](../figures/peers-{what}.svg)\n")
    for rows in sorted({line["rows"] for line in results["lines"] if line["task"] == "median"}):
        sections.append(f"## Median of {rows:,} rows\n")
        sections.append(median_table(lines_of(results, "median", rows)))
    sections += [
        "## Against the targets\n",
        targets(results),
        reading(results),
        twice(results),
        "## Settings\n",
        settings(results),
    ]
    sections += [
        "## What each is good at\n",
        "".join(f"- **{name}**: {text}\n" for name, text in STRENGTHS.items()),
    ]
    return "\n".join(sections)


def lines_of(results: dict[str, Any], task: str, rows: int) -> list[dict[str, Any]]:
    """Those of one table: ours, the bare engine, then the peers by time; who gave no answer comes
    last."""
    matching = [line for line in results["lines"] if (line["task"], line["rows"]) == (task, rows)]
    order = {"dither": 0, PLAIN: 1}
    return sorted(
        matching,
        key=lambda line: (order.get(line["peer"], 2), line.get("answer_s", math.inf), line["peer"]),
    )


def unasked(results: dict[str, Any], rows: int) -> list[str]:
    """Peers that the driver leaves out at this size, by what they took at 1e6 rows."""
    from run import too_slow

    answering_peers = {line["peer"] for line in results["lines"] if line["rows"] == rows}
    return [
        name
        for name in STRENGTHS
        if name not in answering_peers and too_slow(results, name, "keys", rows)
    ]


def keys_table(lines: list[dict[str, Any]]) -> str:
    head = [
        "",
        "answer s",
        "load and first s",
        "load s",
        "peak MB",
        "RMSE of COUNT",
        "RMSE of SUM",
        "RMSE of AVG",
        "repetitions",
    ]
    return markdown(head, [row_of(line, ("count", "sum", "avg")) for line in lines])


def median_table(lines: list[dict[str, Any]]) -> str:
    head = ["", "answer s", "load and first s", "load s", "peak MB", "RMSE", "repetitions"]
    return markdown(head, [row_of(line, ("median",)) for line in lines])


def row_of(line: dict[str, Any], measures: tuple[str, ...]) -> list[str]:
    if "answer_s" not in line:
        return [line["peer"], line.get("refused") or line["failed"], *[""] * (len(measures) + 4)]
    times = [figure(line[name]) for name in ("answer_s", "load_s", "peak_mb")]
    both = figure(line["load_s"] + line["first_s"])
    errors = [error(line["errors"][what]) if line["peer"] != PLAIN else "0" for what in measures]
    more = f" ({line['note']})" if "note" in line else ""
    return [
        line["peer"],
        times[0],
        both,
        times[1],
        times[2],
        *errors,
        f"{line['repetitions']}{more}",
    ]


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def error(figures: dict[str, float]) -> str:
    return f"{figure(figures['rmse'])} ± {figure(figures['standard_error'])}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def targets(results: dict[str, Any]) -> str:
    from run import compared

    rows = [
        [line["name"], figure(line["ours_s"]), figure(line["base_s"]), f"{line['ratio']:.3g}",
        f"{line['target']:g}",
         "yes" if line["ok"] else "**no**"]
        for line in compared(results)
    ]  # fmt: skip
    words = (
        "Twenty times faster than the fastest peer (a ratio of at most 0.05), and no error larger "
        "than the least of the peers (a ratio of "
        "1, within three standard errors of the two estimates; estimates from fewer than five "
        "errors are not compared).\n\n"
    )
    return words + markdown(["", "ours", "best peer", "ratio", "target", "met"], rows)


def reading(results: dict[str, Any]) -> str:
    """The times against those of the engine without privacy: how much room there is."""
    sentences = []
    for rows in sorted({line["rows"] for line in results["lines"] if line["task"] == "keys"}):
        here = {
            line["peer"]: line["answer_s"]
            for line in lines_of(results, "keys", rows)
            if "answer_s" in line
        }
        dither_s = here.pop("dither", None)
        plain_s = here.pop(PLAIN, None)
        if dither_s is None or plain_s is None or not here:
            continue
        best = min(here, key=lambda name: here[name])
        sentences.append(
            f"- {rows:,} rows: dither takes {dither_s / plain_s:.2g} times what DuckDB takes "
            f"without privacy, {best} {here[best] / plain_s:.2g} times. Against dither: "
            + ", ".join(f"{name} {figure(taken / dither_s)} times" for name, taken in here.items())
            + ".\n"
        )
    from laws import median_laws

    bounded, flipped = median_laws(1_000_000)
    why = (
        "An answer of ours has a fixed part (parsing, pricing, a durable charge) that weighs at a "
        "million rows, and a part that "
        "grows with the rows more slowly than DuckDB's own question, since the registered copy "
        "holds keys and amounts as small integers.\n\n"
        "Peers with few repetitions may show a lucky error: by their laws COUNT has a standard "
        "error of 28.3 wherever Laplace noise gets half of "
        "epsilon, SUM 28,284, or 20,000 where it is centred (PipelineDP), whose AVG errs by 1.49. "
        "Ours has one noise for count and centred sum together, "
        "[box noise](../proofs/box-noise.md), in place of two that share the price: by its law "
        "20.0, 14,142 and 1.05, which is 29% less. Its price is the same epsilon 1, delta 0.\n\n"
        f"Medians of OpenDP and dither weigh ranks alike, and both choose by permute-and-flip "
        f"here: by law an error of {flipped:.4f} on this table "
        f"(`bench/peers/laws.py`). In a zCDP pot ours is the exponential mechanism, whose loss (a "
        f"bounded range) costs a quarter as much there; at one epsilon it "
        f"errs by {bounded:.4f}. Asked with its interval, the default, our median gives an eighth "
        f"of its price to the ends; here it is asked without, as the others have none.\n"
    )
    return "".join(sentences) + "\n" + why


def twice(results: dict[str, Any]) -> str:
    """What was measured again: both times are shown, since a second run of some and not of others
    is a choice."""
    kept = {(line["peer"], line["task"], line["rows"]): line for line in results["lines"]}
    rows = [
        [line["peer"], line["task"], f"{line['rows']:,}", figure(line["answer_s"]),
         figure(kept[line["peer"], line["task"], line["rows"]]["answer_s"])]
        for line in results.get("earlier", []) if "answer_s" in line
    ]  # fmt: skip
    if not rows:
        return ""
    words = (
        "All lines above are from one pass on a machine that did nothing else. Earlier runs of the "
        "same day, some on a busy machine, with other "
        "repetitions and an earlier version of ours, are kept in the file and shown here, in "
        "seconds for an answer: do not read a factor of two as a finding.\n\n"
    )
    return words + markdown(["", "task", "rows", "earlier run", "this pass"], rows)


def settings(results: dict[str, Any]) -> str:
    line_by_peer = {line["peer"]: line for line in results["lines"] if "settings" in line}
    rows = [
        [name, line_by_peer[name]["version"], line_by_peer[name]["settings"]]
        for name in ("dither", *STRENGTHS)
        if name in line_by_peer
    ]
    return markdown(["", "version", "settings"], rows).replace("---:", "---")


def bars(title: str, rows: list[tuple[str, float, str]], *, log: bool) -> str:
    """A bar chart as SVG: a name, a length and the words at its end."""
    label_width = 150
    width = 430
    step = 26
    largest = max(value for _, value, _ in rows)
    least = min(value for _, value, _ in rows) / 2 if log else 0.0

    def length(value: float) -> float:
        share = math.log(value / least) / math.log(largest / least) if log else value / largest
        return max(1.0, width * share)

    height = 44 + step * len(rows)
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {height}" '
        f'font-family="sans-serif" font-size="13">',
        f"<title>{title}</title>",
        f'<rect width="700" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="22" font-weight="bold" fill="#222222">{title}</text>',
    ]
    for position, (name, value, words) in enumerate(rows):
        y = 36 + step * position
        colour = "#b3541e" if name == "dither" else "#9a9a9a" if name == PLAIN else "#4a6fa5"
        elements += [
            f'<text x="{label_width - 8}" y="{y + 14}" text-anchor="end" '
            f'fill="#222222">{name}</text>',
            f'<rect x="{label_width}" y="{y}" width="{length(value):.1f}" height="18" '
            f'fill="{colour}"/>',
            f'<text x="{label_width + length(value) + 6:.1f}" y="{y + 14}" '
            f'fill="#222222">{words}</text>',
        ]
    return "\n".join([*elements, "</svg>"]) + "\n"


def plots(results: dict[str, Any]) -> dict[str, str]:
    answered_lines = [line for line in lines_of(results, "keys", 1_000_000) if "answer_s" in line]
    times = [
        (line["peer"], line["answer_s"], f"{figure(line['answer_s'])} s") for line in answered_lines
    ]
    memory = [
        (line["peer"], line["peak_mb"], f"{figure(line['peak_mb'])} MB") for line in answered_lines
    ]
    private = [line for line in answered_lines if line["peer"] != PLAIN]
    errors = [
        (line["peer"], line["errors"]["sum"]["rmse"], error(line["errors"]["sum"]))
        for line in private
    ]
    return {
        "peers-time.svg": bars(
            "Seconds for COUNT, SUM, AVG by 100 keys of 1,000,000 rows (log scale)", times, log=True
        ),
        "peers-memory.svg": bars("Peak memory in MB, the same question", memory, log=False),
        "peers-error.svg": bars("RMSE of SUM at epsilon 1, the same question", errors, log=False),
    }


def main() -> None:
    file = newest()
    results = json.loads(file.read_text())
    (DOCS / "reference" / "peers.md").write_text(page(results, file.name))
    for name, text in plots(results).items():
        (DOCS / "figures" / name).write_text(text)


if __name__ == "__main__":
    main()
