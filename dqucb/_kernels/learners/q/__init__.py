"""Learners that update Q from each transition: optimistic and plain Q-learning, and its restarting relatives."""
