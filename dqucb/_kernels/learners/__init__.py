"""One file per learning rule: its tables as a NamedTuple, and how it acts and learns from one transition.

The loops in `episodes.py` and `steps.py` call the generic functions of `rules.py`, which pick the rule by
the type of the learner; adding a rule means adding a file here, which registers itself, and nothing to the loops.
"""
