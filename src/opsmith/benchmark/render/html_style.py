"""The style of the report page: light and dark as the reader has it, narrow windows, paper."""

from __future__ import annotations

__all__ = ["STYLE"]

_LIGHT = """--back: #f6f7f9; --card: #fff; --line: #e1e5eb; --text: #1b2027; --soft: #667080; --good: #1a7f45;
  --bad: #c0272d; --warn: #9a6700; --code: #f1f3f6; --tip: #1b2027; --tip-text: #f4f6f8; --beyond: #66708014;
  --k0: #2f6fe4; --k1: #7a8494; --k2: #d9731a; --k3: #b1468e; --k4: #7b52c7; --k5: #17897f; --k6: #b58900; --k7: #c0392b;
  --k8: #5d8a2e; --k9: #00799e;"""
_DARK = """--back: #12151b; --card: #1a1f27; --line: #2c333e; --text: #e4e8ee; --soft: #98a3b3; --good: #57c27a;
  --bad: #ff7b76; --warn: #d9a93e; --code: #12161d; --tip: #e4e8ee; --tip-text: #14181f; --beyond: #98a3b31a;
  --k0: #6ea4ff; --k1: #98a3b3; --k2: #f0995a; --k3: #e07fc0; --k4: #ab8cf0; --k5: #4fc4b8; --k6: #dcb84a; --k7: #f07a6d;
  --k8: #93c060; --k9: #54b9de;"""

STYLE = (
    f":root {{ color-scheme: light dark; {_LIGHT} }}\n"
    f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}\n"
    + "".join(f".k{number} {{ --k: var(--k{number}); }} " for number in range(10))
    + """
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.55 system-ui, sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 2.2rem 1.2rem 3rem; }
h1 { font-size: 1.6rem; letter-spacing: -.01em; margin: 0 0 1rem; }
h2 { font: 600 1.15rem ui-monospace, monospace; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
.tool, .note, footer, .about { color: var(--soft); margin: .1rem 0 .9rem; font-size: .9rem; }
.warning { color: var(--warn); margin: .2rem 0; } .wrong { color: var(--bad); font-weight: 600; }
.overview { padding-left: 1.2rem; margin: 0 0 1.4rem; } .overview a { color: inherit; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.2rem 1.4rem;
  margin: 0 0 1.4rem; }
.tiles { display: grid; grid-template-columns: repeat(var(--n), minmax(0, 1fr)); gap: .7rem; margin: .9rem 0 .4rem; }
.tile { display: block; border: 1px solid var(--line); border-radius: 10px; padding: .7rem .9rem; color: inherit;
  text-decoration: none; background: none; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.3; letter-spacing: -.01em; }
.tile span { display: block; color: var(--soft); font-size: .85rem; }
.tile .what { color: var(--text); font-weight: 600; }
.tile:hover { border-color: var(--soft); }
.tile[aria-selected=true] { border-color: var(--k0); box-shadow: inset 0 0 0 1px var(--k0); }
.faster { color: var(--good); } .slower { color: var(--bad); } .equal { color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: .35rem; margin: .9rem 0 .2rem; }
.legend button { font: inherit; font-size: .88rem; color: inherit; background: none; border: 1px solid var(--line);
  border-radius: 99px; padding: .12rem .7rem .12rem .5rem; cursor: pointer; display: inline-flex; gap: .35rem;
  align-items: center; }
.legend button[aria-pressed=false] { opacity: .45; text-decoration: line-through; }
.swatch { width: 13px; height: 13px; fill: var(--k); }
:focus-visible { outline: 2px solid var(--k0); outline-offset: 2px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1.2rem 2rem;
  align-items: start; }
figure { margin: .9rem 0 0; min-width: 0; break-inside: avoid; }
figcaption { font-weight: 600; margin-bottom: .5rem; }
figcaption span { display: block; font-weight: 400; color: var(--soft); font-size: .85rem; }
figure svg { display: block; width: 100%; max-width: 34rem; height: auto; overflow: visible; border-radius: 6px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .left, svg .name { text-anchor: end; } svg .below { text-anchor: middle; }
svg .group { fill: var(--text); font-weight: 600; } svg .name { fill: var(--text); }
svg .value { fill: var(--text); } svg .value.equal { fill: var(--soft); } svg .value.slower { fill: var(--bad); }
.rule { stroke: var(--line); fill: none; } .one { stroke: var(--soft); fill: none; }
.beyond { fill: var(--beyond); stroke: none; }
.roof { stroke: var(--soft); stroke-width: 1.6; stroke-dasharray: 2 4; stroke-linecap: round; fill: none; }
.line { fill: none; stroke: var(--k); stroke-width: 1.8; stroke-opacity: .75; }
.k0 .line { stroke-width: 2.8; stroke-opacity: 1; }
.whisker { fill: none; stroke: var(--text); stroke-opacity: .6; stroke-width: 1.2; }
.mark { fill: var(--k); } .reach { fill: transparent; stroke: none; }
.bar.equal { fill-opacity: .28; stroke: var(--k); stroke-opacity: .6; }
.series, .mark { transition: opacity .12s; }
.faint .series:not(.hot) { opacity: .18; } .series.off { display: none; }
.mark.here .reach { fill: var(--k); fill-opacity: .18; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { font-weight: 500; } thead th { color: var(--soft); font-size: .85rem; }
th, td { text-align: left; padding: .35rem .9rem .35rem 0; vertical-align: top; white-space: nowrap; }
tbody tr { border-top: 1px solid var(--line); }
td small { display: block; color: var(--soft); font-size: .82rem; }
td b { font-weight: 600; }
meter { width: 5rem; height: .7rem; vertical-align: middle; }
.share { display: inline-block; width: 4.5rem; height: .5rem; border-radius: 9px; background: var(--code); overflow: hidden;
  margin-right: .5rem; vertical-align: middle; border: 1px solid var(--line); }
.share i { display: block; height: 100%; background: var(--k0); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; margin: .4rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
details { border-top: 1px solid var(--line); padding: .55rem 0 .2rem; margin-top: 1rem; }
details + details { margin-top: .2rem; }
summary { cursor: pointer; font-weight: 600; }
details p, details li { max-width: 46rem; }
code { font: .9em ui-monospace, monospace; background: var(--code); border-radius: 4px; padding: .08em .3em; }
#tip { position: fixed; z-index: 2; max-width: min(22rem, 92vw); padding: .5rem .75rem; border-radius: 8px;
  pointer-events: none;
  background: var(--tip); color: var(--tip-text); font-size: .85rem; line-height: 1.45; white-space: pre-line; opacity: 0;
  transition: opacity .1s; }
#tip.shown { opacity: 1; } #tip::first-line { font-weight: 600; }
@media (max-width: 40rem) { main { padding: 1rem .6rem; } section { padding: .9rem; } dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .4rem; } .tiles { grid-template-columns: 1fr 1fr; gap: .5rem; }
  .tile span:nth-of-type(n + 3) { display: none; } .tile b { font-size: 1.25rem; } }
@media print { body { background: none; font-size: 11pt; } main { max-width: none; padding: 0; }
  section { border: none; padding: 0; } .panel[hidden] { display: block !important; } #tip { display: none; }
  .scroll { overflow: visible; } table { font-size: 7.5pt; } th, td { white-space: normal; padding-right: .4rem; }
  .plots { grid-template-columns: 1fr 1fr; } .bar, .mark, .share i, .swatch, .beyond {
  print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
)
