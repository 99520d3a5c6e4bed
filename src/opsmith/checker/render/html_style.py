"""The look of the HTML report: colours by name, in a light and a dark set, and a layout that a narrow screen bears."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --back: #f6f7f9; --card: #ffffff; --line: #e3e6ea; --text: #1c2330; --soft: #626d7d;
  --good: #1f7a3d; --bad: #c0272d; --bad-back: #fdeeee; --warn: #9a6700; --code: #f1f3f6; --bar: #9db4d6; }
@media (prefers-color-scheme: dark) { :root { --back: #12151b; --card: #1a1f27; --line: #2c333e; --text: #e4e8ee;
  --soft: #98a3b3; --good: #57c27a; --bad: #ff7b76; --bad-back: #3a1f22; --warn: #d9a93e; --code: #12161d;
  --bar: #46608a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.2rem 1.2rem 3rem; }
h1 { font-size: 1.6rem; letter-spacing: -.01em; margin: 0 0 1rem; }
h2 { font: 600 1.1rem ui-monospace, monospace; margin: 0; }
.tool { color: var(--soft); margin: 0; }
.totals, .note, footer { color: var(--soft); margin: .2rem 0 1rem; font-size: .9rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1.1rem 1.3rem;
  margin: 0 0 1.2rem; }
.overview { list-style: none; padding: 0; margin: 0 0 1.4rem; }
.overview li::before { content: "✓ "; } .overview li.failed::before { content: "✗ "; }
.overview a { color: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
.grid td, .grid thead th { text-align: center; min-width: 3.1rem; padding: .22rem .4rem; }
.grid thead th { color: var(--soft); font-weight: 500; font-size: .85rem; }
.grid .device { color: var(--text); }
.grid tbody tr { border-top: 1px solid var(--line); }
.grid tbody th { text-align: left; font-weight: 500; padding: .22rem 1.6rem .22rem 0; white-space: nowrap; }
.grid small { color: var(--soft); font-weight: 400; margin-left: .7rem; }
.passed { color: var(--good); } .failed { color: var(--bad); } .not-run { color: var(--soft); }
.error { color: var(--warn); font-weight: 700; }
td.failed { background: var(--bad-back); font-weight: 700; }
td a { color: inherit; text-decoration: none; display: block; }
details { border-top: 1px solid var(--line); padding: .55rem 0 .3rem; margin-top: .5rem; }
summary { cursor: pointer; }
.finding div:target { border-left: 3px solid var(--bad); padding-left: .9rem; }
.hint { border-left: 3px solid var(--bar); padding-left: .7rem; }
.label { color: var(--soft); font-size: .85rem; margin-bottom: .2rem; }
pre { background: var(--code); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; margin: .2rem 0 .8rem;
  font: .85rem/1.5 ui-monospace, monospace; }
.times { width: 100%; font-size: .9rem; } .times th { text-align: left; font-weight: 400; white-space: nowrap; }
.times td:last-child { width: 60%; } .number { text-align: right; font-variant-numeric: tabular-nums; padding: 0 1rem; }
.bar { display: inline-block; height: .65rem; background: var(--bar); border-radius: 2px; min-width: 1px; }
@media (max-width: 40rem) { .grid small { display: none; } main { padding: 1rem .6rem; } section { padding: .8rem; } }
"""
