"""The run engine: one way from `Agent.train` to runs, for tabular, deep, allocation and users' agents.

options.py declares every option of `train` once; request.py checks them; world.py opens envs and says what is known of
a problem; session.py is the run of one seed: its identity, curves, alarms and detector. compiled.py, stepped.py and
lockstep.py are the loops, env_stack.py the envs of several seeds. engine.py decides what all runs share: resuming,
checkpoints, callbacks, progress and results; evaluation.py plays episodes of a policy apart from training. Agents use it
through `dqucb.base.Agent`.
"""
