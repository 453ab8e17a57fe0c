#!/usr/bin/env python3
"""Win rate over minutes of training of several runs, as CSV and SVG.

  dev/curve.py OUT LABEL=RUN_FOLDER [LABEL=RUN_FOLDER ...]      writes OUT.csv and OUT.svg

Runs with the same label are drawn alike: seeds of one setting.
"""
import argparse
import csv
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "docs" / "pictures"))
from make_pictures import Panel, read_scalars, svg, text, wilson  # noqa: E402

STYLES = [("a", ""), ("b", "7 3"), ("bean", "2 3"), ("ink", "10 3 2 3")]  # colour and dashes, by label


def points_of(run):
    """[(minutes, win rate, low, high)] and the opponent's name."""
    config_file = run / "config.json"
    if not config_file.is_file():
        sys.exit(f"{run} is not a run's folder: it has no config.json")
    config = json.loads(config_file.read_text())
    rates = read_scalars(run, ["eval/win_rate"])["eval/win_rate"]
    if not rates:
        sys.exit(f"{run} has no evaluations: train with --eval_interval")
    return [(minutes, rate, *wilson(rate, config["eval_games"])) for minutes, rate in rates], config["eval_opponent"]


def draw(curves, opponent):
    """curves: [(label, points)]"""
    labels = list(dict.fromkeys(label for label, _ in curves))
    last = max(points[-1][0] for _, points in curves)
    panel = Panel(84, 280, last, 0, 100)
    body = [text(24, 34, f"Games won against {opponent.replace('level', 'level ')}", 17, kind="fill-ink strong")]
    x = 24
    for label, (colour, dashes) in zip(labels, STYLES):
        body.append(f'<path d="M{x},56h28" class="open stroke-{colour}" stroke-width="2.5" stroke-dasharray="{dashes}"/>')
        body.append(text(x + 36, 60.5, label, 13, kind=f"fill-{colour} strong"))
        x += 60 + 8 * len(label)
    body += panel.grid(25, " %")
    for label, points in curves:
        colour, dashes = STYLES[labels.index(label)]
        there = " ".join(f"{panel.x(m):.1f},{panel.y(100 * high):.1f}" for m, _, _, high in points)
        back = " ".join(f"{panel.x(m):.1f},{panel.y(100 * low):.1f}" for m, _, low, _ in reversed(points))
        body.append(f'<polygon points="{there} {back}" class="fill-{colour}" fill-opacity="0.12"/>')
        body.append(f'<path d="{panel.path([(m, 100 * rate) for m, rate, _, _ in points])}" class="open stroke-{colour}" '
                    f'stroke-width="2.5" stroke-linejoin="round" stroke-dasharray="{dashes}"/>')
        body += [f'<circle cx="{panel.x(m):.1f}" cy="{panel.y(100 * rate):.1f}" r="3" class="fill-{colour}"/>'
                 for m, rate, _, _ in points if len(points) <= 60]
    body += panel.minutes()
    body.append(text(panel.left + panel.width / 2, panel.top + panel.height + 40, "minutes since the start, with 95 % interval", 13,
                     "middle", "fill-faint"))
    return svg(704, panel.top + panel.height + 56, f"Win rates against {opponent} over {last:.0f} minutes of training", body)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("runs", nargs="+", metavar="LABEL=RUN_FOLDER")
    line = parser.parse_args()
    curves, opponents = [], set()
    for word in line.runs:
        label, _, folder = word.partition("=")
        if not folder:
            parser.error(f"{word!r} is not LABEL=RUN_FOLDER")
        points, opponent = points_of(pathlib.Path(folder))
        curves.append((label, points))
        opponents.add(opponent)
    if len(opponents) > 1:
        parser.error(f"the runs were judged against different opponents: {', '.join(sorted(opponents))}")
    if len({label for label, _ in curves}) > len(STYLES):
        parser.error(f"at most {len(STYLES)} labels have distinct styles")
    with open(line.out.with_name(line.out.name + ".csv"), "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["label", "run", "minutes", "win_rate", "low", "high"])
        for number, (label, points) in enumerate(curves):
            table.writerows([label, number, f"{m:.3f}", *(f"{value:.4f}" for value in rates)] for m, *rates in points)
    line.out.with_name(line.out.name + ".svg").write_text(draw(curves, opponents.pop()))


if __name__ == "__main__":
    main()
