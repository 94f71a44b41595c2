"""The run engine: everything between `Agent.train` and its runs, for tabular, deep, allocation and users' agents.

options.py declares every option of `train` once, and request.py validates them. env.py opens envs and describes
problems. session.py defines the run of one seed: its identity, curves, alarms and detector. compiled.py, stepped.py
and lockstep.py are the training loops; env_stack.py holds the envs of several seeds. engine.py implements what all runs
share: resuming, checkpoints, callbacks, progress bars and results. files.py writes and reads the files of agents.
observations.py converts observations to arrays. evaluation.py runs episodes of a fixed policy. Agents use this package
through `dqucb.base.Agent`.
"""
