"""Long checks that look for failures at random: faults, changed files, sequences of calls, memory, bit identity.

Each module is a command (`python -m tests.campaigns.faults --trials 1000`); `tests/test_campaigns.py` runs short forms.
"""
