"""The look of every page: one small style sheet, light and dark, for wide and narrow screens."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --quiet: #5c6679; --paper: #fbfaf7; --card: #fff;
  --line: #dcdfe6;
  --blue: #2458a6; --amber: #b4690e; --red: #a8322b; --green: #2b7a4b; --soft: #eef2f9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --quiet: #9aa4b5; --paper: #14171d;
  --card: #1b2029;
  --line: #313846; --blue: #7fb0ff; --amber: #e0a458; --red: #ef8a80; --green: #79c99a;
  --soft: #222a37; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 60rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .8rem; padding-top: .6rem;
  border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 0 0 .3rem; }
p { margin: .4rem 0 .8rem; max-width: 46rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: 1rem 0 0; font-size: .92rem; }
a { color: var(--blue); }
.badge { display: inline-block; margin: 0; padding: .15rem .7rem; border: 1px solid var(--line);
  border-radius: 1rem;
  background: var(--soft); font-size: .88rem; }
article p { max-width: none; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: 1rem 1.1rem .7rem;
  margin: 0 0 1rem; }
.quiet { color: var(--quiet); font-size: .88rem; margin: .5rem 0 .3rem; }
.chart { display: grid; grid-template-columns: minmax(4.5rem, auto) 1fr auto; gap: 0 .7rem;
  align-items: center;
  font-size: .88rem; margin: .6rem 0 .2rem; }
.chart .label { text-align: right; overflow-wrap: anywhere; }
.chart .value { text-align: right; font-variant-numeric: tabular-nums; }
.axis { position: relative; height: 1.4rem; color: var(--quiet); font-size: .78rem;
  border-top: 1px solid var(--line); }
.axis i { position: absolute; transform: translateX(-50%); font-style: normal;
  white-space: nowrap; }
.axis i:first-child { transform: none; }
.axis i:last-child { transform: translateX(-100%); }
svg { display: block; width: 100%; overflow: visible; }
svg circle { fill: var(--blue); }
.plots { display: flex; flex-wrap: wrap; gap: 1rem 2rem; }
figure { margin: .4rem 0; flex: 1 1 17rem; max-width: 27rem; }
figcaption { font-size: .8rem; color: var(--quiet); }
.plot { height: auto; }
.plot text { font-size: 12px; fill: var(--quiet); }
.plot text.named { fill: var(--ink); }
.plot .axis { stroke: var(--line); }
.plot .claim { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 5 4; }
.plot .shown { stroke: var(--red); stroke-width: 2.5; }
.plot polyline { stroke-width: 1.6; }
.plot .guess { stroke: var(--quiet); stroke-dasharray: 1 4; }
.plot .top { stroke: var(--quiet); stroke-width: 2; }
.whisker { stroke: var(--blue); stroke-width: 1.6; }
.truth { stroke: var(--amber); stroke-width: 2.5; }
.zero { stroke: var(--line); stroke-width: 1; }
.legend span { white-space: nowrap; margin-right: 1.1rem; }
.legend .dot, .legend .bar { display: inline-block; margin-right: .4rem; }
.legend .dot { width: .6rem; height: .6rem; border-radius: 50%; background: var(--blue); }
.legend .bar { width: .2rem; height: .9rem; background: var(--amber); vertical-align: -.1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; min-width: 100%; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top;
  font-variant-numeric: tabular-nums; }
thead th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
.stages td:not(:first-child), .stages thead th:not(:first-child) { text-align: right;
  min-width: 5.2rem; }
.stages td:first-child { font-weight: 600; }
.signed { width: 4.4rem; margin-left: auto; margin-top: .2rem; }
.signed .less { fill: var(--red); }
.signed .more { fill: var(--green); }
.good, .fair, .bad { font-weight: 600; white-space: nowrap; }
.good { color: var(--green); }
.fair { color: var(--amber); }
.bad { color: var(--red); }
tr.noted td { border-bottom: 0; padding-bottom: 0; }
tr.noted td:first-child { font-weight: 600; }
tr.notes td { color: var(--quiet); padding-bottom: .9rem; }
.meter { position: relative; display: flex; height: 1.3rem; margin: 1.4rem 0 1rem;
  background: var(--soft);
  border: 1px solid var(--line); border-radius: .3rem; }
.meter span { background: var(--blue); border-right: 1px solid var(--card); }
.meter span:first-child { border-radius: .25rem 0 0 .25rem; }
.meter b { position: absolute; top: -1.25rem; transform: translateX(-50%); font-size: .75rem;
  color: var(--quiet);
  font-weight: 400; }
.meter b::after { content: ""; position: absolute; left: 50%; top: 1.15rem; height: 1.5rem;
  border-left: 2px dashed var(--amber); }
.refusal { border-left: 4px solid var(--amber); background: var(--soft); padding: .6rem .9rem;
  overflow-wrap: anywhere; }
details { margin: .3rem 0 .5rem; }
summary { cursor: pointer; color: var(--blue); font-size: .9rem; }
pre { overflow-x: auto; background: var(--soft); border-radius: .4rem; padding: .7rem .9rem;
  font-size: .8rem;
  line-height: 1.45; font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.1rem; font-size: .92rem; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
li { margin: .3rem 0; max-width: 48rem; }
footer { color: var(--quiet); font-size: .82rem; padding: 2rem 1.25rem 3rem; }
@media (max-width: 48rem) { body { font-size: 15px; } header { padding-top: 1.4rem; }
  h1 { font-size: 1.5rem; }
  article { padding: .8rem .8rem .5rem; } dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .5rem; }
  .chart { gap: 0 .5rem; } }
@media print { article { break-inside: avoid; } nav { display: none; } }
"""
