"""What runs in a candidate's process: it stands beside the candidate, which may change all of it, and nothing trusts it."""
