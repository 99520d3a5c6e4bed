"""Turns definitions and existing sources into commands, runs them and explains what compilers say."""
