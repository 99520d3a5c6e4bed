"""How a benchmark is shown: `grid` arranges it; `text`, `live`, `markdown`, `as_json` and `html` each show it somewhere."""
