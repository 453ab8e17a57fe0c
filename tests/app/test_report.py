"""The report page: compared with TensorBoard's own reader, eval and the log, and in a real browser."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from browsers import browser, open_page
from processes import BINARY, PATIENCE_S, SOURCE, TINY, call, clean_environment, flags, only_json, run_folder

CHAMPION = SOURCE / "models" / "champion.pth"

SETTINGS = TINY | {"max_episodes": 10**6, "max_minutes": 0.05, "eval_interval": 8, "eval_games": 20, "eval_opponent": "level2",
                   "checkpoint_interval": 12, "seed": 5, "updates_per_step": 4, "opponent_mix": "level0:0.5,league:0.5", "league_interval": 16, "league_games": 100}


def train(folder, **settings):
    done = call(*flags(SETTINGS | {"runs_dir": folder} | settings))
    assert done.returncode == 0, done.stderr
    return run_folder(done.stdout)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three: two seeds of the same settings, and one with another learning rate that was resumed."""
    folder = tmp_path_factory.mktemp("runs")
    few = {"max_episodes": 240, "max_minutes": 0}  # some seconds of updates; on the fastest machine, too: the page draws up to 40 evaluations as dots
    first, second = train(folder, **few), train(folder, seed=6, **few)
    third = train(folder, c_lr=0.002, max_minutes=0.03)  # its time ends it, so that there is more to do
    done = call("train", "--resume", third, "--max_minutes", "0.07")
    assert done.returncode == 0, done.stderr
    return [first, second, third]


def report(out, *line):
    done = call("report", *line, "--html", out, "--ladder_games", "2")
    assert done.returncode == 0, done.stderr
    assert f"{out}: " in done.stdout
    assert out.stat().st_size < 1_000_000
    return out


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    return report(tmp_path_factory.mktemp("page") / "one.html", runs[0])


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="report">(.*?)</script>', page.read_text(), re.S)[1])


def scalars(run):
    """Points by tag, as TensorBoard has them; a folder's later files take the place of earlier points."""
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}


def add_reports(run, *reports):
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.writelines(json.dumps(report) + "\n" for report in reports)


def means_of_neighbours(points, most=240):
    """[(value, step)] that the report shows of these points: all, or `most` means of neighbours."""
    places = min(len(points), most)
    parts = [points[place * len(points) // places:(place + 1) * len(points) // places] for place in range(places)]
    return [tuple(sum(getattr(p, column) for p in part) / len(part) for column in ("value", "step")) for part in parts]


def expect_curve(curve, points):
    shown = means_of_neighbours(points)
    assert {len(column) for column in curve.values()} == {len(shown)}
    assert curve["values"] == pytest.approx([value for value, _ in shown], rel=1e-5, abs=1e-9)
    assert curve["episodes"] == pytest.approx([step for _, step in shown], abs=0.5)
    assert curve["minutes"] == sorted(curve["minutes"]) and curve["steps"] == sorted(curve["steps"])


# The data


@pytest.mark.parametrize("which", [0, 2])
def test_curves_are_those_of_tensorboard(runs, which):
    shown = only_json(call("report", runs[which], "--json", "--ladder_games", "0").stdout)["runs"][0]
    points = scalars(runs[which])
    assert set(shown["curves"]) == set(points) | {"time/playing"}
    for tag, curve in shown["curves"].items():
        if tag == "time/playing":
            assert all(0 <= value <= 1 for value in curve["values"])
            continue
        expect_curve(curve, points[tag])
    # A resumed run's steps continue, and its break does not count.
    assert shown["steps"] == pytest.approx(shown["curves"]["collect/env_steps"]["steps"][-1])
    reported = re.findall(r"(?:completed|resumed)! \d+ episodes, (\d+) steps", (runs[which] / "train.log").read_text())
    assert shown["steps"] == pytest.approx(int(reported[-1]), rel=0.02)
    assert 0 < shown["minutes"] < 60


def test_many_points_are_means_of_neighbours(runs, tmp_path):
    for name in ("config.json", "train.log"):
        shutil.copy(runs[0] / name, tmp_path / name)
    points = [SimpleNamespace(step=step, value=(step % 7) ** 2) for step in range(1, 1001)]
    add_reports(tmp_path, *({"step": 10 * p.step, "episode": p.step, "minutes": p.step / 60, "time": 1.7e9 + p.step, "loss/critic": p.value}
                            for p in points))
    curves = only_json(call("report", tmp_path, "--json", "--ladder_games", "0").stdout)["runs"][0]["curves"]
    assert len(curves["loss/critic"]["values"]) == 240
    expect_curve(curves["loss/critic"], points)


def test_evaluations_have_wilsons_intervals_and_the_logs_words(runs):
    shown = only_json(call("report", runs[0], "--json", "--ladder_games", "0").stdout)["runs"][0]
    log = (runs[0] / "train.log").read_text()
    lines = re.findall(r"\[Evaluation at episode (\d+)\] against (\w+): won ([\d.]+) % \[([\d.]+), ([\d.]+)\] of (\d+) games", log)
    assert len(lines) >= 2
    assert [(str(e["episodes"]), e["opponent"], f"{100 * e['value']:.1f}", f"{100 * e['low']:.1f}", f"{100 * e['high']:.1f}",
             str(e["games"])) for e in shown["evaluations"]] == lines
    elo = re.findall(r"\[League at episode (\d+)\] Elo (-?\d+) \[(-?\d+), (-?\d+)\]", log)
    assert [(str(e["episodes"]), f"{e['value']:.0f}", str(round(e["low"])), str(round(e["high"]))) for e in shown["league"]] == elo != []
    marks = [mark["kind"] for mark in shown["marks"]]
    assert marks[0] == "start" and marks[-1] == "end" and marks.count("checkpoint") == log.count(" MB in ")
    assert shown["state"] == "finished" and shown["notes"] == [] and shown["damage"] == []
    resumed = only_json(call("report", runs[2], "--json", "--ladder_games", "0").stdout)["runs"][0]
    assert [mark["kind"] for mark in resumed["marks"]].count("resumed") == 1
    assert any("max_minutes" in note["text"] for note in resumed["notes"]), "a changed setting is worth reading"


def test_settings_are_compared_with_the_defaults_or_a_preset(runs, tmp_path):
    def differing(*line):
        shown = only_json(call("report", runs[0], "--json", "--ladder_games", "0", *line).stdout)["runs"][0]
        return {name: (value, usual) for name, value, usual in shown["settings"]}

    written, plain = json.loads((runs[0] / "config.json").read_text()), differing()
    assert plain["hidden_size"] == (16, 256) and plain["seed"] == (5, 1) and "gamma" not in plain
    assert all(written[name] == value != usual for name, (value, usual) in plain.items())
    preset = tmp_path / "preset.json"
    preset.write_text(json.dumps({"hidden_size": 16, "gamma": 0.5}))
    compared = differing("--preset", preset)
    assert "hidden_size" not in compared and compared["gamma"] == (written["gamma"], 0.5)


def test_the_ladder_has_the_results_of_eval_and_is_stored(runs):
    line = ["report", runs[0], "--json", "--ladder_games", "6"]
    ladder = only_json(call(*line, "--champion", CHAMPION).stdout)["runs"][0]["ladder"]
    teams = [row["team"] for row in ladder["rows"]]
    assert {"level0", "level4", "territory", "champion"} <= set(teams)
    actor = runs[0] / "trained_model" / ladder["actor"]
    for row in ladder["rows"]:
        if row["team"] not in ("level2", "champion"):
            continue
        reported = only_json(call("eval", "--team_a", actor, "--team_b", {"champion": CHAMPION}.get(row["team"], row["team"]), "--games", "6",
                              "--seed", ladder["seed"], "--json").stdout)
        assert [row[key] for key in ("games", "wins", "draws", "losses", "score")] == [
            reported[key] for key in ("games", "wins", "draws", "losses", "score_a")]
        assert [row["low"], row["high"]] == reported["win_rate_ci95"]
        assert sum(row["deaths"].values()) == sum(cause["early"] + cause["late"] for cause in reported["deaths_a"].values())
    kept = runs[0] / "ladder.json"
    stamp = kept.stat().st_mtime_ns
    assert only_json(call(*line, "--champion", CHAMPION).stdout)["runs"][0]["ladder"] == ladder and kept.stat().st_mtime_ns == stamp
    other = only_json(call("report", runs[0], "--json", "--ladder_games", "4", "--champion", CHAMPION).stdout)["runs"][0]["ladder"]
    assert other["rows"][0]["games"] == 4 and kept.stat().st_mtime_ns != stamp


def test_the_games_are_the_best_the_median_and_the_worst_of_the_last_evaluation(runs, tmp_path):
    run = runs[0]
    stored = {path.stem: json.loads(path.read_text()) for path in (run / "evaluation").iterdir()}
    assert set(stored) == {"best", "median", "worst"}
    checked = only_json(call("verify-trace", *(run / "evaluation").iterdir(), "--json").stdout)
    assert checked["games"] == 3 and checked["mismatches"] == 0
    # The last evaluation was of the last weights.
    last = max((run / "trained_model").glob("actor_[0-9]*.pth"), key=lambda path: int(path.stem[6:]))
    assert call("eval", "--team_a", last, "--team_b", "level2", "--games", "20", "--seed", "5", "--record", tmp_path).returncode == 0

    def lead(game, number):
        a, b = sum(game["n_return"][:3]), sum(game["n_return"][3:])
        return a - b if number % 2 == 0 else b - a

    played = [json.loads((tmp_path / f"game_{number:02}.json").read_text()) for number in range(20)]
    order = sorted(range(20), key=lambda number: lead(played[number], number))
    leads = [lead(played[number], number) for number in order]
    for name, number in (("worst", order[0]), ("median", order[10]), ("best", order[leads.index(leads[-1])])):
        assert stored[name]["steps"] == played[number]["steps"], name
        assert stored[name]["names"] == (["ddpg", "level2"] if number % 2 == 0 else ["level2", "ddpg"])


# The page


def state_of(browser, plot):
    return browser.execute_script("""
        const svg = document.querySelector(`[data-plot='${arguments[0]}'] svg`);
        return [svg.dataset.series, svg.dataset.point, document.getElementById('live').textContent]""", plot)


def numbers_of(browser, plot):
    return browser.execute_script("""
        return [...document.querySelectorAll(`[data-plot='${arguments[0]}'] tbody`)].map(body =>
          [...body.rows].map(row => [...row.cells].map(cell => cell.textContent)))""", plot)


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 390)])
def test_the_page_shows_everything_without_a_network(browser, page, scheme, width):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
    open_page(browser, page, scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width, "nothing is wider than the screen"
    shown = browser.execute_script("return [...document.querySelectorAll('[data-plot]')].filter(e => !e.hidden).map(e => e.dataset.plot)")
    assert {"win-rate", "time-line", "elo", "scores", "deaths", "lost", "loss-critic", "loss-actor", "norms", "steps", "updates", "shares",
            "memory"} <= set(shown)
    text = browser.find_element(By.TAG_NAME, "main").text
    for words in ("finished", "Most time on", "Peak memory", "20 games against level2", "hidden_size", "territory"):
        assert words in text, words
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert dark == ("rgb(244, 246, 248)" if scheme == "light" else "rgb(13, 17, 23)")
    # Each picture has a text, each plot a table.
    assert browser.execute_script("""
        return [...document.querySelectorAll('svg')].filter(e => !e.closest('[hidden]') && !e.getAttribute('aria-label') &&
                                                            e.getAttribute('aria-hidden') !== 'true').length""") == 0
    assert browser.execute_script("return [...document.querySelectorAll('.plot')].filter(e => !e.hidden && !e.querySelector('tbody tr')).length") == 0
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    source = page.read_text()
    assert not re.search(r"\ssrc=|@import|url\((?!#)|fetch\(|import ", source.split('id="report"')[0] + source.split("</script>")[-2])
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_plots_numbers_are_those_of_tensorboard(browser, runs, page):
    open_page(browser, page)
    points = scalars(runs[0])
    for plot, tags in {"loss-critic": ["loss/critic"], "scores": ["eval/score", "eval/opponent_score"], "win-rate": ["eval/win_rate"],
                       "memory": ["perf/memory_mb"]}.items():
        tables = numbers_of(browser, plot)
        assert len(tables) == len(tags)
        for tag, rows in zip(tags, tables):
            assert [float(row[1]) for row in rows] == pytest.approx([value for value, _ in means_of_neighbours(points[tag])], rel=1e-5), tag
    # The curve is drawn where its numbers are.
    drawn = browser.execute_script("""
        return [...document.querySelectorAll("[data-plot='win-rate'] .dot")].map(e => Number(e.getAttribute('cy')))""")
    rates = [p.value for p in points["eval/win_rate"]]
    assert len(drawn) == len(rates)
    assert drawn == pytest.approx([184 - rate * 174 for rate in rates], abs=0.01)
    browser.find_element(By.CSS_SELECTOR, "#axis input[value=episodes]").click()
    assert [float(row[0]) for row in numbers_of(browser, "win-rate")[0]] == [p.step for p in points["eval/win_rate"]]
    assert browser.current_url.endswith("#episodes")


def test_the_keyboard_reads_the_plots(browser, page):
    open_page(browser, page)
    evaluations = data_of(page)["runs"][0]["evaluations"]
    for _ in range(40):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        if browser.execute_script("return document.activeElement.closest('[data-plot]')?.dataset.plot") == "win-rate":
            break
    focused = browser.switch_to.active_element
    assert focused.get_attribute("role") == "application" and f"{len(evaluations)} points" in focused.get_attribute("aria-label")

    def press(*keys):
        for key in keys:
            ActionChains(browser).send_keys(key).perform()
        return state_of(browser, "win-rate")

    for key, point in ((Keys.ARROW_RIGHT, 0), (Keys.ARROW_RIGHT, 1), (Keys.END, len(evaluations) - 1), (Keys.ARROW_RIGHT, len(evaluations) - 1),
                       (Keys.ARROW_LEFT, len(evaluations) - 2), (Keys.HOME, 0)):
        series, at, said = press(key)
        assert (series, int(at)) == ("0", point)
        one = evaluations[point]
        assert f"{100 * one['value']:.1f} % ({100 * one['low']:.1f} % to {100 * one['high']:.1f} %), 20 games against level2" in said
    plot = browser.find_element(By.CSS_SELECTOR, "[data-plot=deaths] svg")
    browser.execute_script("arguments[0].focus()", plot)
    ActionChains(browser).send_keys(Keys.END, Keys.ARROW_DOWN).perform()
    series, at, said = state_of(browser, "deaths")
    labels = [item.text for item in browser.find_elements(By.CSS_SELECTOR, "[data-plot=deaths] .keys li")]
    assert series == "1" and said.startswith(f"{labels[1]}, ")
    line = browser.find_element(By.CSS_SELECTOR, "[data-plot=time-line] svg")
    browser.execute_script("arguments[0].focus()", line)
    ActionChains(browser).send_keys(Keys.END).perform()
    assert "Training completed!" in state_of(browser, "time-line")[2]
    assert browser.get_log("browser") == []


def test_a_game_plays_in_the_page(browser, runs, page):
    open_page(browser, page)
    stored = json.loads((runs[0] / "evaluation" / "worst.json").read_text())
    button = browser.find_element(By.CSS_SELECTOR, "[data-game=worst]")
    score = f"{sum(stored['n_return'][:3])} : {sum(stored['n_return'][3:])}".replace("-", "\u2212")
    assert score in button.text
    button.click()
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    until = time.monotonic() + PATIENCE_S
    while not (found := browser.find_elements(By.ID, "last")):
        assert time.monotonic() < until
        time.sleep(0.05)
    found[0].click()
    assert browser.find_element(By.ID, "clock").text == f"step {len(stored['steps'])} of {len(stored['steps'])}"
    points = browser.execute_script("return [...document.querySelectorAll('.points')].map(e => e.textContent)")
    assert " : ".join(points) == score
    browser.switch_to.default_content()
    assert browser.get_log("browser") == []


def test_on_paper_it_is_light_and_whole(browser, page):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    browser.get(f"file://{page}")
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    hidden = browser.execute_script("""
        return [...document.querySelectorAll('iframe, #axis, details')].every(e => getComputedStyle(e).display === 'none')""")
    assert hidden
    paper = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert len(paper) > 20_000
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_seeds_are_a_band_and_other_settings_a_line(browser, runs, tmp_path):
    page = report(tmp_path / "three.html", *runs)
    open_page(browser, page)
    data = data_of(page)
    assert [run["group"] for run in data["runs"]] == [0, 0, 1]
    tables = numbers_of(browser, "memory-main-memory") or numbers_of(browser, "memory")
    assert [len(rows[0]) for rows in tables] == [4, 2], "the mean with the least and the greatest, then one run's values"
    curves = [run["curves"]["perf/memory_mb"] for run in data["runs"][:2]]

    def at(curve, x):
        xs, ys = curve["minutes"], curve["values"]
        if not xs[0] <= x <= xs[-1]:
            return None
        after = next(i for i, other in enumerate(xs) if other >= x)
        if after == 0 or xs[after] == x:
            return ys[after]
        return ys[after - 1] + (x - xs[after - 1]) / (xs[after] - xs[after - 1]) * (ys[after] - ys[after - 1])

    for x, value, low, high in [[float(cell) for cell in row] for row in tables[0]][5:75:10]:
        values = [v for v in (at(curve, x) for curve in curves) if v is not None]
        assert (value, low, high) == pytest.approx((sum(values) / len(values), min(values), max(values)), rel=1e-3)
    legend = browser.execute_script("return [...document.querySelectorAll(\"[data-plot='win-rate'] .keys li\")].map(e => e.textContent)")
    assert legend == ["ddpg, 2 seeds (run1, run2)", "run3"]
    assert "\u2260 c_lr" in browser.find_element(By.ID, "settings").text
    assert browser.get_log("browser") == []


def test_a_name_in_the_log_is_text_and_never_markup(browser, tmp_path):
    run = train(tmp_path / "runs", max_minutes=0.01)
    with open(run / "train.log", "a") as log:
        log.write('2026-01-31 12:00:00.000 </script><img src=x onerror="window.hacked = 1">\n')
    page = report(tmp_path / "evil.html", run)
    assert "<img" not in page.read_text()
    open_page(browser, page)
    assert browser.execute_script("return window.hacked") is None
    assert "<img src=x" in browser.find_element(By.ID, "notes").text


def test_values_beyond_all_are_drawn(browser, tmp_path):
    run = train(tmp_path / "runs", max_minutes=0.01)
    add_reports(run, *({"step": 10**15, "episode": 10**12 - k % 2, "minutes": 1e7, "time": 1.9e9 + k, "league/elo": 1e308, "elo_low": None, "elo_high": 1e308,
                        "collect/env_steps": 1e30 * (-1)**k, "eval/win_rate": 5, "games": 10**12, "loss/critic": None} for k in range(50)))
    open_page(browser, report(tmp_path / "page.html", run))  # its script ends
    assert browser.find_elements(By.CSS_SELECTOR, "[data-plot] svg")


# Runs that are active, that died, that are none


def test_a_run_that_was_killed_is_shown_up_to_its_last_whole_report(browser, tmp_path):
    with open(tmp_path / "out", "w") as out:
        process = subprocess.Popen([BINARY, *flags(SETTINGS | {"runs_dir": tmp_path / "runs", "max_minutes": 5, "save_interval": 8})], stdout=out,
                                   env=clean_environment(), stdin=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S
    while (tmp_path / "out").read_text().count("[Evaluation") < 2:  # the last report will be cut off
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.1)
    run = run_folder((tmp_path / "out").read_text())
    live = data_of(report(tmp_path / "live.html", run))["runs"][0]
    assert live["state"] == "running" and len(live["evaluations"]) >= 1
    assert "plays its ladder" in live["ladder"]["why"] and not (run / "ladder.json").exists()
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_S)
    reports = run / "metrics.jsonl"
    reports.write_bytes(reports.read_bytes()[:-7])
    page = report(tmp_path / "died.html", run)
    died = data_of(page)["runs"][0]
    assert died["state"] == "died" and "1 line of metrics.jsonl is no report" in died["damage"][0] and len(died["evaluations"]) >= 1
    assert died["ladder"]["rows"]
    open_page(browser, page)
    assert "killed or crashed" in browser.find_element(By.ID, "facts").text
    assert "1 line of metrics.jsonl is no report" in browser.find_element(By.ID, "notes").text


def test_watching_writes_the_page_until_the_run_ends(tmp_path):
    page = tmp_path / "live.html"
    with contextlib.ExitStack() as stack, open(tmp_path / "out", "w") as out:
        training = subprocess.Popen([BINARY, *flags(SETTINGS | {"runs_dir": tmp_path / "runs", "max_minutes": 5})], stdout=out,
                                    env=clean_environment(), stdin=subprocess.DEVNULL)
        stack.callback(training.kill)
        until = time.monotonic() + PATIENCE_S
        while "episode 1  " not in (tmp_path / "out").read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        run = run_folder((tmp_path / "out").read_text())
        watching = subprocess.Popen([BINARY, "report", run, "--html", page, "--watch", "--every", "0.2", "--ladder_games", "2"],
                                    env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        stack.callback(watching.kill)
        seen = set()
        while len(seen) < 3:
            assert time.monotonic() < until and watching.poll() is None
            with contextlib.suppress(FileNotFoundError):
                data = data_of(page)  # whole whenever it is read
                assert data["runs"][0]["state"] == "running" and data["reload_s"] == 1
                seen.add(data["runs"][0]["minutes"])
        training.send_signal(signal.SIGTERM)
        assert training.wait(PATIENCE_S) == 75
        said, _ = watching.communicate(timeout=PATIENCE_S)
        assert watching.returncode == 0 and f"{page}: 1 run," in said
    data = data_of(page)
    assert data["runs"][0]["state"] == "stopped" and data["reload_s"] == 0 and data["runs"][0]["ladder"]["rows"]


def test_wrong_use_is_reported(runs, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text('{"gamma": ')
    out = tmp_path / "out.html"
    for line, code, words in (([], 2, "needs the folder of a run"), ([runs[0]], 2, "--html OUT"),
                              ([runs[0], "--html", out, "--json"], 2, "either --html"), ([runs[0], "--json", "--watch"], 2, "--watch"),
                              ([tmp_path / "none", "--html", out], 4, "is not a run folder"),
                              ([tmp_path / "empty", "--html", out], 4, "is not a run folder"),
                              ([tmp_path / "broken", "--html", out], 4, "config.json: not JSON"),
                              ([runs[0], "--html", out, "--preset", tmp_path / "no.json"], 4, "no.json"),
                              ([runs[0], "--html", tmp_path / "no" / "out.html", "--ladder_games", "0"], 4, "out.html")):
        done = call("report", *line)
        assert done.returncode == code and words in done.stderr and done.stdout == "", (line, done.stderr)
    assert not out.exists()


def test_a_run_without_reports_or_log_says_so(runs, tmp_path):
    (tmp_path / "config.json").write_text((runs[0] / "config.json").read_text())
    shown = only_json(call("report", tmp_path, "--json").stdout)["runs"][0]
    assert "metrics.jsonl" in shown["damage"][0] and "train.log" in shown["damage"][1]
    assert shown["curves"] == {} and shown["ladder"] == {"why": "No weights are saved yet."} and shown["state"] == "died"
