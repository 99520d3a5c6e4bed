"""How a benchmark is shown: in a terminal, while it runs, in a README, to a program, and as a page."""
