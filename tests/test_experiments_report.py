"""The report: one page that loads nothing, and works in a real browser."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from dqucb import _figures
from dqucb.agents import DQUCB, QUCB, PlanningDQUCB
from dqucb.experiments import compare, plots, sweep
from dqucb.experiments.report import write_report
from dqucb.problems import combination_lock, frozen_lake, gridworld
from tests.waiting import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
FLAGS += ("--disable-background-networking", "--disable-component-update", "--disable-sync")
NASTY = '</script><b>QUCB & "co" <!--DATA-->'  # a label must not be able to break the page


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    problem = gridworld(noise=(0.05, 0.3), change_at=(300,), rows=2, cols=3, horizon=8)
    agents = {"DQUCB": DQUCB(window=20), NASTY: QUCB(), "bold": QUCB(bonus_scale=3.0)}
    out = tmp_path_factory.mktemp("report") / "out"
    return compare(agents, problem, 700, seeds=5, jobs=1, out=out, command="dqucb run <it>")


@pytest.fixture(scope="module")
def page(comparison):
    return write_report(comparison, comparison.folder / "report.html")


class Tags(HTMLParser):
    """Every tag, its attributes, and what is still open."""

    VOID = frozenset({"meta", "br", "link", "img", "input"})

    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize(("change_at", "said"), [
    ((), "it does not change."),
    ((2_000,), "it changes at episode 2,000."),
    ((1_000, 2_000), "it changes at episodes 1,000 and 2,000."),
    ((10, 20, 30, 40, 1_050), "it changes 5 times, from episode 10 to 1,050."),
])  # fmt: skip
def test_the_page_says_when_the_world_changes(change_at, said, tmp_path):
    made = compare([QUCB()], combination_lock(change_at=change_at), 2_100, seeds=1, jobs=1)
    assert said in write_report(made, tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_loads_nothing(page):
    text = page.read_text(encoding="utf-8")
    parser = Tags()
    parser.feed(text)
    assert parser.open == []
    names = {tag for tag, _ in parser.tags}
    assert not names & {"link", "img", "iframe", "object", "embed", "base"}
    for _, attributes in parser.tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "url(" not in text
    assert "@import" not in text
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)[1]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    for element in ("style", "script"):  # all that may count, and that is executed, is named by its hash
        for content in re.findall(rf"<{element}>(.*?)</{element}>", text, re.S):
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert re.search(rf"{element}-src [^;]*'sha256-{re.escape(digest)}'", policy)
    for _, attributes in parser.tags:
        assert not any(name == "style" or name.startswith("on") for name in attributes)
    assert not re.search(r"<!--[A-Z]+-->", re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.S))


def test_the_page_says_what_was_run(page, comparison):
    text = unescape(page.read_text(encoding="utf-8"))
    for words in (
        "dqucb run <it>",
        '"change_at"',
        "15 finished, 0 missing",
        "numba",
        "numpy",
        "1 process",
        "s of computing for",
    ):
        assert words in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S)[1])
    assert [agent["label"] for agent in data["agents"]] == comparison.labels == ["DQUCB", NASTY, "bold"]
    assert data["changes"] == [300]
    last = comparison.summary().loc["DQUCB", "regret"]
    assert data["agents"][0]["regret"]["mean"][-1] == pytest.approx(last, rel=1e-5)
    assert len(data["agents"][0]["x"]) <= 502


def test_an_unfinished_sweep_says_so(comparison, tmp_path):
    shutil.copytree(comparison.folder, tmp_path / "copy")
    next((tmp_path / "copy" / "runs").iterdir()).unlink()
    from dqucb.experiments import load_comparison

    text = write_report(load_comparison(tmp_path / "copy"), tmp_path / "page.html").read_text(encoding="utf-8")
    assert "unfinished: 1 of 15 runs are missing" in text


def with_selftest(page, folder):
    """A copy of the page whose script uses the page at its end; the policy allows the longer script."""
    text = page.read_text(encoding="utf-8")
    end = "})();\n</script>"
    assert text.count(end) == 1
    longer = text.replace(end, (Path(__file__).parent / "report_selftest.js").read_text(encoding="utf-8") + end)
    for before, after in zip(
        *(re.findall(r"<script>(.*?)</script>", each, re.S) for each in (text, longer)), strict=True
    ):
        digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (before, after)]
        assert f"'sha256-{digests[0]}'" in text
        longer = longer.replace(*digests)
    folder.mkdir(exist_ok=True)
    copy = folder / "selftest.html"
    copy.write_text(longer, encoding="utf-8")
    return copy


def in_browser(page, profile, width=1100, dark=False):
    """What the page found when it tried itself out in a real browser."""
    flags = [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},900"]
    if dark:
        flags.append("--blink-settings=preferredColorScheme=0")
    finished = subprocess.run(
        [CHROMIUM, *flags, "--dump-dom", with_selftest(page, profile).as_uri()],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    found = re.search(r'<pre id="selftest"[^>]*>(.*?)</pre>', finished.stdout, re.S)
    assert found, f"the page's script did not reach its end: {finished.stderr[-500:]}"
    assert "Uncaught" not in finished.stderr
    return json.loads(unescape(found[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_in_a_browser_the_table_sorts_and_a_legend_click_hides_a_curve(page, comparison, tmp_path):
    result = in_browser(page, tmp_path)
    assert result["problems"] == []
    regrets = sorted(comparison.summary()["regret"])
    assert result["ascending"] == pytest.approx(regrets)
    assert result["descending"] == pytest.approx(regrets[::-1])
    assert result["curves"] == [3, 3, 1]
    assert result["afterHiding"] == [2, 2, 0]
    assert result["pressed"] == "false"
    assert result["afterShowing"] == [3, 3, 1]
    assert result["changes"] == 1
    assert "bold:" in result["tip"]
    assert "bold:" in result["tipByKey"]
    assert (result["x"][0], result["x"][-1]) == ("0", "700")
    assert result["y"][0] == "0"
    assert float(result["y"][-1].replace(",", "")) >= max(regrets)
    assert len(set(result["dashes"])) == len(set(result["strokes"])) == 3


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_in_a_browser_the_page_is_dark_for_who_asks_and_fits_a_phone(page, tmp_path):
    light, dark = in_browser(page, tmp_path / "light"), in_browser(page, tmp_path / "dark", 500, dark=True)
    assert (light["paper"], dark["paper"]) == ("rgb(255, 255, 255)", "rgb(21, 23, 28)")
    assert not set(light["strokes"]) & set(dark["strokes"])
    assert dark["overflow"] <= 0  # 500 px is the narrowest window of headless Chromium
    assert dark["font"] >= 11
    assert dark["problems"] == light["problems"] == []


def linear(colour):
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG 2: the ratio of the relative luminances."""
    light, dark = sorted((linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb):
    xyz = np.clip(rgb, 0, 1) @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
    x, y, z = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize(("mode", "colours"), [(0, _figures.COLOURS), (1, _figures.DARK_COLOURS)])
def test_every_word_and_line_has_a_contrast_of_at_least_4_5(page, mode, colours):
    roots = re.findall(r":root \{(.*?)\}", page.read_text(encoding="utf-8"), re.S)
    named = dict(re.findall(r"--(\w+): (#\w{6})", roots[mode]))
    grounds = [named["paper"], named["tint"]]
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for colour in (named["ink"], named["soft"], *colours):
        assert min(contrast(colour, ground) for ground in grounds) >= 4.5
    assert contrast(named["ink"], named["warn"]) >= 4.5


# Severe protanopia and deuteranopia, linear RGB (Machado, Oliveira and Fernandes 2009).
SIGHTS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
}


@pytest.mark.parametrize("colours", [_figures.COLOURS, _figures.DARK_COLOURS])
@pytest.mark.parametrize("sight", SIGHTS)
def test_no_two_colours_look_the_same(colours, sight):
    seen = [lab(SIGHTS[sight] @ linear(colour)) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 12
    assert len(set(_figures.LINES)) == len(colours) == 8


def test_plots_are_written_as_png_and_svg_the_same_each_time(comparison, tmp_path):
    files = plots.draw_all(comparison, tmp_path / "one", visits=True)
    assert {path.stem for path in files} == {"regret", "final_regret", "overview", "likelihood", "visits"}
    assert {path.suffix for path in files} == {".png", ".svg"}
    for path in files:
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")
    for again in plots.save(plots.regret(comparison), tmp_path / "two" / "regret"):
        assert again.read_bytes() == (tmp_path / "one" / again.name).read_bytes()


def test_the_regret_plot_shows_means_bands_and_changes(comparison, tmp_path):
    axes = comparison.plot(tmp_path / "curve.png").axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert lines["DQUCB"].get_ydata()[-1] == pytest.approx(comparison.summary().loc["DQUCB", "regret"])
    assert list(lines["change"].get_xdata()) == [300, 300]
    assert len(axes.collections) == 3
    assert len({line.get_color() for line in axes.lines[:3]} | {line.get_linestyle() for line in axes.lines[:3]}) >= 5
    assert (tmp_path / "curve.svg").exists()


def test_a_sweep_is_drawn_against_its_parameter_and_reported_with_its_best_values(tmp_path):
    problem = gridworld(noise=0.1, change_at=(), rows=2, cols=3, horizon=8)
    swept = sweep([QUCB()], problem, {"bonus_scale": [0.1, 1.0, 5.0]}, 100, seeds=4, jobs=1)
    axes = plots.regret_by_parameter(swept, "bonus_scale").axes[0]
    assert list(axes.lines[0].get_xdata()) == [0.1, 1.0, 5.0]
    assert axes.get_xscale() == "log"
    assert "Best values" in write_report(swept, tmp_path / "sweep.html").read_text(encoding="utf-8")


def test_alarms_are_in_tables_pictures_and_the_report(tmp_path):
    lake = frozen_lake(slip=(0, 0.5), change_at=(300,), horizon=100)
    runs = compare([PlanningDQUCB(), QUCB()], lake, 600, seeds=2, jobs=1, out=tmp_path)
    table = runs.alarms()
    assert list(table.index) == ["PlanningDQUCB"]
    assert table.loc["PlanningDQUCB", "found_300"] == 2
    assert table.loc["PlanningDQUCB", "median_delay_300"] < 10
    assert table.loc["PlanningDQUCB", "false_alarms"] == sum(runs.finals()["false_alarms"])
    assert all(times for times in runs.alarms_of("PlanningDQUCB").values())
    labels = [text.get_text() for text in plots.overview(runs).axes[1].get_legend().get_texts()]
    assert "alarms of PlanningDQUCB" in labels
    page = write_report(runs, tmp_path / "report.html").read_text()
    assert "<h2>Alarms</h2>" in page
    assert "<h2>Diagnosis</h2>" in page
    assert page.count("means of 2 runs") == 1  # QUCB has none
    assert "fewer than 5 runs" in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert data["agents"][0]["alarms"] == sorted(set().union(*runs.alarms_of("PlanningDQUCB").values()))
    assert data["agents"][1]["alarms"] == []
    assert compare([QUCB()], lake, 600, seeds=1, jobs=1).alarms().empty
