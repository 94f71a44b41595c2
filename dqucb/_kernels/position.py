"""Indices of a run's `position`, which kernels update themselves, so that Ctrl-C between two calls loses nothing."""

STATE, DONE = 0, 1  # the state of a run without episodes (NOWHERE: draw one first); episodes or records done
NOWHERE = -1
