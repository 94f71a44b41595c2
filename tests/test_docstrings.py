"""Docstrings of public functions and classes: numpydoc Parameters that agree with the signature."""

import importlib
import inspect
import pkgutil
import re

import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

import dqucb

SECTION = re.compile(r"^(?:Parameters|Attributes)\n-{3,}\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", re.S | re.M)


def public():
    """Qualified name -> function or class, of every public name of the package, and the methods of `dqucb.Agent`."""
    packages = [module.name for module in pkgutil.walk_packages(dqucb.__path__, "dqucb.") if module.ispkg]
    names = [name for name in packages if "._" not in name] + ["dqucb.base", "dqucb.checks", "dqucb.run"]
    modules = [dqucb, *(importlib.import_module(name) for name in names)]
    found = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    found += [value for name, value in vars(dqucb.Agent).items() if inspect.isfunction(value) and name[0] != "_"]
    return {
        f"{each.__module__}.{each.__qualname__}": each
        for each in found
        if (inspect.isfunction(each) or inspect.isclass(each)) and each.__module__.startswith("dqucb")
    }


def documented(thing):
    """The names in the sections Parameters and Attributes of a docstring, with their stars."""
    entries = [line for part in SECTION.findall(inspect.cleandoc(thing.__doc__ or "")) for line in part.splitlines()]
    return [name.strip() for line in entries if line[:1].strip() for name in line.split(" :")[0].split(",")]


def problems(thing):
    """What is wrong with the Parameters of a function or class, in words."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:  # a compiled class without a signature
        return []
    names = [each.name for each in parameters if each.name not in ("self", "cls")]
    if len(names) < 2 or names == ["args", "kwargs"]:  # the second is a protocol
        return []
    given = documented(thing)
    if not given:
        return [f"no Parameters for {', '.join(names)}"]
    plain = [name for name in given if not name.startswith("*")]
    wrong = [f"{name} is documented but not in the signature" for name in plain if name not in names]
    # `**parameters` stands for those that a base class or another function documents.
    collected = any(name.startswith("**") for name in given)
    return wrong + [f"{name} is not documented" for name in names if name not in plain and not collected]


@pytest.mark.parametrize("name", public())
def test_parameters_agree_with_the_signature(name):
    assert problems(public()[name]) == []


def test_all_packages_are_looked_at():
    packages = {name.split(".")[1] for name in public()}
    assert packages >= {"agents", "base", "checks", "deep", "density", "drift", "envs", "experiments", "hospital",
                        "problems", "run"}  # fmt: skip


def test_wrong_parameters_are_found():
    def example(first, second=1, *, third=None):
        """Do something.

        Parameters
        ----------
        first, other : int
            Numbers.

        Returns
        -------
        third : int
            Not a parameter.
        """

    assert problems(example) == [
        "other is documented but not in the signature", "second is not documented", "third is not documented",
    ]  # fmt: skip
    example.__doc__ = "Do something."
    assert problems(example) == ["no Parameters for first, second, third"]
