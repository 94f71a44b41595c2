"""Learners that replan in a model of counts, after UCBVI: restarts, detectors, posterior sampling, MASTER."""
