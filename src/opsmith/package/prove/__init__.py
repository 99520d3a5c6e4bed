"""Proves what a wheel claims by running it: with every release of torch from its floor up, and with other Pythons."""
