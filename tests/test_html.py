"""What a notebook shows: HTML forms without scripts, every word escaped, and pictures that show by themselves."""

from html.parser import HTMLParser

import matplotlib
import pytest

from dqucb import QUCB, TabularMDP, combination_lock, compare, frozen_lake

NASTY = "<script>alert(1)</script>"


class Words(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.words = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words += data + " "


def shown(thing):
    parser = Words()
    parser.feed(thing._repr_html_())
    assert "script" not in parser.tags
    return parser


@pytest.fixture(scope="module")
def comparison():
    lock = combination_lock(change_at=(100,))
    return compare({"QUCB": QUCB(), NASTY: QUCB(bonus_scale=3.0)}, lock, 200, seeds=5, jobs=1)


def test_runs_agents_problems_and_comparisons_have_an_html_form(comparison):
    lock = combination_lock(change_at=(100,))
    run = QUCB().train(lock, episodes=200, seed=1)
    page = shown(run)
    assert {"table", "svg", "polyline"} <= set(page.tags)
    assert "QUCB on combination-lock" in page.words
    assert "bonus_scale" in shown(QUCB()).words
    assert "changes at 100" in shown(lock).words.replace("  ", " ")
    assert "S" in shown(frozen_lake()).words
    page = shown(comparison)
    assert NASTY in page.words
    assert "95 % interval" in page.words
    few = compare([QUCB()], lock, 120, seeds=2, jobs=1)
    assert "fewer than 5 runs" in shown(few).words


def test_names_from_users_are_escaped():
    mdp = TabularMDP([[[1.0]]], [[0.0]], horizon=2, name=NASTY)
    assert NASTY in shown(mdp).words


@pytest.mark.parametrize("what", ["regret", "returns", "likelihood", "overview", "final"])
def test_each_picture_shows_by_itself(comparison, what):
    figure = comparison.plot(what=what)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_plots_go_into_given_axes_and_respect_rc_params(comparison):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert comparison.plot(ax=axes, what="returns") is axes
    assert axes.get_ylabel() == "mean return"
    assert comparison.plot().axes[0].lines[0].get_linewidth() == 1.6
    with matplotlib.rc_context({"lines.linewidth": 3.5, "figure.figsize": (3.0, 3.0)}):
        figure = comparison.plot()
        assert figure.axes[0].lines[0].get_linewidth() == 3.5
        assert figure.get_size_inches().tolist() == [3.0, 3.0]
    assert comparison.plot(style={"lines.linewidth": 4.5}).axes[0].lines[0].get_linewidth() == 4.5
    assert comparison.plot(style="ggplot").axes[0].lines[0].get_color() == "#E24A33"
    assert matplotlib.rcParams["lines.linewidth"] == matplotlib.rcParamsDefault["lines.linewidth"]
    with pytest.raises(ValueError, match="ax must be None"):
        comparison.plot(ax=axes, what="overview")
    with pytest.raises(ValueError, match="what must be one of"):
        comparison.plot(what="regrets")
