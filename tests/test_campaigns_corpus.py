"""Files that guided fuzzing found (tests/campaigns/fuzz_corpus.py): they reach code that whole files do not."""

from pathlib import Path

import pytest

from tests.campaigns.fuzz_targets import LOADERS, targets

CORPUS = Path(__file__).parent / "corpus"
FOUND = {name: sorted((CORPUS / name.replace(" ", "-")).glob("*")) for name in LOADERS}


@pytest.mark.parametrize("loader", [name for name in LOADERS if FOUND[name]])
def test_a_file_of_the_corpus_is_loaded_or_refused_in_our_words(loader, tmp_path):
    if loader == "deep agent":
        pytest.importorskip("scipy")
    target = targets((loader,))[loader]
    refused = 0
    for path in FOUND[loader]:
        copy = tmp_path / f"file{path.suffix}"  # some loaders write beside what they load
        copy.write_bytes(path.read_bytes())
        try:
            target.load(copy)
        except ValueError:  # anything else is a fault
            refused += 1
    assert refused > 0 or loader in ("index", "evaluations")  # which are made anew when they are damaged
