"""Changed files, guided by the code that they reach (Atheris, libFuzzer).

    pip install -e .[fuzz]                                                   # Atheris, on Linux
    python -m tests.campaigns.fuzz_guided --minutes 5                             # of every loader, one after the other
    python -m tests.campaigns.fuzz_guided --only kde,run --minutes 60 --out out/guided

A file that reaches new lines of dqucb is kept and changed further. Changes are those of `fuzz_mutations`, and
libFuzzer's own within one member of an archive, both under a checksum that agrees; plain bytes alone would never get
past it. As in `tests.campaigns.fuzz`, a file may be loaded and used, or refused with a ValueError of ours. libFuzzer
stops at anything else, and keeps the file as DIR/LOADER/crash-*. Compiled code is not guided.
"""

import argparse
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

SECONDS = 30  # for one file
MEGABYTES = 2_048
LARGEST = 65_536  # bytes of a file


def guided(loader: str, folder: Path, seconds: int) -> None:
    """Fuzz one loader in this process; libFuzzer ends it."""
    import atheris

    warnings.simplefilter("ignore")
    place = Path("/dev/shm") if os.path.isdir("/dev/shm") else folder
    path = place / f"dqucb-guided-{os.getpid()}"
    # Kernels are read by Numba from their bytecode: instrumented, they would not compile.
    with atheris.instrument_imports(include=["dqucb"], exclude=_kernels()):
        from tests.campaigns import fuzz_mutations as mutations
        from tests.campaigns.fuzz_targets import targets

        target = targets((loader,))[loader]
        path = path.with_suffix(target.suffix)
        for sample in target.samples:  # what is imported when it is needed is imported here
            path.write_bytes(sample)
            target.load(path)
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(target.samples):
        (corpus / f"sample-{number}").write_bytes(sample)

    def one(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(ValueError):
            target.load(path)

    def changed(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        other = chance.choice(target.samples)
        try:
            if chance.random() < 0.5:
                return target.mutate(data, chance, other)[:most]
            return within(data, chance, lambda part: atheris.Mutate(part, len(part) + 64), mutations)[:most]
        except Exception:  # the file cannot be taken apart any more
            return target.mutate(other, chance, other)[:most]

    options = [f"-max_total_time={seconds}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}"]
    options += [f"-max_len={LARGEST}", f"-artifact_prefix={folder}/", "-print_final_stats=1", "-use_value_profile=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one, custom_mutator=changed)
    atheris.Fuzz()


def _kernels() -> list[str]:
    """The names of the modules of `dqucb._kernels`; none is imported."""
    spec = importlib.util.find_spec("dqucb")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parents[1]
    files = (root / "dqucb" / "_kernels").rglob("*.py")
    return [".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for path in files]


def within(data: bytes, chance: random.Random, change: Callable[[bytes], bytes], mutations: Any) -> bytes:
    """A file of ours with one member changed, under a checksum that agrees; any other file changed as a whole."""
    if data[:2] != b"PK":
        return change(data)
    members = mutations.members_of(data)
    place = chance.randrange(len(members))
    members[place] = (members[place][0], change(members[place][1]))
    return bytes(mutations.sealed(members, chance.random() < 0.5))


def summary(loader: str, folder: Path, said: str) -> dict[str, Any]:
    """What libFuzzer did, from its last words."""
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", said) or re.search(r"Done (\d+) runs", said)
    reached = re.findall(r"cov: (\d+)", said)
    peak = re.search(r"stat::peak_rss_mb:\s*(\d+)", said)
    crashes = sorted(path.name for kind in ("crash", "timeout", "oom") for path in folder.glob(f"{kind}-*"))
    return {
        "loader": loader, "files": int(runs[1]) if runs else None,
        "reached at first": int(reached[0]) if reached else None,
        "reached": int(reached[-1]) if reached else None, "kept": len(list(folder.glob("corpus/*"))),
        "peak MB": int(peak[1]) if peak else None, "findings": crashes,
    }  # fmt: skip


def main() -> None:
    """Fuzz loaders in turn, each in a process of its own."""
    from tests.campaigns.fuzz_targets import LOADERS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="Names of loaders, with commas between them.")
    parser.add_argument("--minutes", type=float, default=5.0, help="For each loader.")
    parser.add_argument("--out", type=Path, default=Path("out/guided"))
    parser.add_argument("--loader", help="Fuzz one in this process (used by the command itself).")
    given = parser.parse_args()
    if given.loader:
        guided(given.loader, given.out, round(60 * given.minutes))
        return
    wrong = False
    for loader in [name for name in given.only.split(",") if name] or LOADERS:
        folder = (given.out / loader.replace(" ", "-")).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        words = ["--loader", loader, "--minutes", str(given.minutes), "--out", str(folder)]
        command = [sys.executable, "-m", "tests.campaigns.fuzz_guided", *words]
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        (folder / "log").write_text(answer.stdout + answer.stderr, encoding="utf-8")
        found = summary(loader, folder, answer.stderr)
        print(json.dumps(found | {"exit code": answer.returncode}), flush=True)
        wrong = wrong or bool(found["findings"]) or answer.returncode != 0
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
