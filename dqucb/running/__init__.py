"""The run engine: one way from `Agent.train` to runs, for tabular, deep, allocation and users' agents.

options.py declares every option of `train` once; request.py checks them; world.py opens envs and says what is known of
a problem; session.py is the run of one seed, its curves, alarms and detector; compiled.py, stepped.py and lockstep.py
are the loops; engine.py decides what all runs share: resuming, checkpoints, callbacks, progress and results;
evaluation.py plays episodes of a policy apart from training. Agents are below `dqucb.base`, which alone calls this.
"""
