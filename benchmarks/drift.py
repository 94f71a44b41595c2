"""The detector benchmark with the named families besides the generated ones: `python -m benchmarks.drift [--out DIR]`.

Options are those of `python -m dqucb.drift.benchmark`. The named families (lakes, Pendulum, CartPole, MuJoCo,
hospitals) are in `benchmarks.drift_streams`; `--families named` chooses them alone.
"""

from benchmarks.drift_streams import FAMILIES, POLICIES, length_of, stored
from dqucb.drift.benchmark.__main__ import main
from dqucb.drift.benchmark.streams import Draws, Maker, Stream, register


def _maker(name: str) -> Maker:
    def make(rng_of: Draws, change_at: int | None, steps: int) -> Stream:
        return stored(name, rng_of.seed, change_at, steps)

    return make


for _name in (*FAMILIES, *POLICIES):
    _kind = "finite" if "lake" in _name or "MDP" in _name else "continuous"
    register(f"named, {_name}", _maker(_name), _kind, placebo=_name in POLICIES, length=length_of(_name))

if __name__ == "__main__":
    main()
