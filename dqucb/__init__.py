"""Reinforcement learning in environments that change."""

__version__ = "0.1.0"
