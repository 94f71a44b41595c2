"""One file per learning rule: its tables as a NamedTuple, and how it acts and learns from one transition.

`q` contains the learners that update Q from each transition, `ucbvi` those that replan in a model of counts, `planning`
PlanningDQUCB; what they share is here. The loops in `episodes.py` and `steps.py` call the generic functions of
`rules.py`, which are dispatched on the type of the learner: a new rule is a new file, which registers itself.
"""
