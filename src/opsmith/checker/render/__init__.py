"""How a report is shown: `grid` arranges it, and `text`, `as_json`, `html` and `live` each show it in one place."""
