"""The pure part: what a breaker is and how it decides.

Standard library only. Nothing here reads a clock, does I/O, awaits, locks or draws a random number:
instants, lease tokens and draws come in as arguments, so the same history always gives the same answers.
Times are integer milliseconds (`_ms`); public values are seconds.
"""
