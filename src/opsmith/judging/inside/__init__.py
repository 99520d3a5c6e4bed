"""Runs in a candidate's process, beside the candidate, which may change all of it: the judge trusts nothing here."""
