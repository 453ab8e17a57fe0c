#!/usr/bin/env python3
"""Draws the pictures of the documentation as SVG.

  make_pictures.py curve RUN_FOLDER OUT.svg   win rate and reward of a run over its minutes
  make_pictures.py game  BOARD.txt  OUT.svg   a board as `./snake_ddp eval --show STEP` prints it
  make_pictures.py film  GAME.json  OUT.svg   a game as `./snake_ddp eval --record FOLDER` writes it, step by step
  make_pictures.py page  PAGE.html  OUT.png   a page that `./snake_ddp replay` or `report` made, in Chromium

Needs nothing but Python, and for `page` what the tests need. The SVG pictures follow the reader's light or dark setting. Teams and curves differ in shape as well as in colour.
"""
import argparse
import io
import json
import math
import pathlib
import re
import shutil
import sys
from xml.sax.saxutils import escape

# Blue and orange of Okabe and Ito's palette, which people with any kind of colour vision can tell apart; lighter ones on
# dark ground.
LIGHT = dict(ground="#ffffff", ink="#24292f", faint="#6e7781", line="#d8dee4", cell="#f3f5f7", a="#0072b2", b="#d55e00",
             bean="#117a52", eye="#ffffff")
DARK = dict(ground="#0d1117", ink="#e6edf3", faint="#9198a1", line="#30363d", cell="#161b22", a="#56b4e9", b="#e69f00",
            bean="#4ac58a", eye="#0d1117")


def style():
    """`.fill-a` and `.stroke-a` for each colour; plain rules, as not every viewer knows CSS variables."""
    def rules(colours):
        return " ".join(f".fill-{name} {{ fill: {colour}; }} .stroke-{name} {{ stroke: {colour}; }}"
                        for name, colour in colours.items())
    return f"""
  text {{ font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }}
  .open {{ fill: none; }} .strong {{ font-weight: 600; }}
  {rules(LIGHT)}
  @media (prefers-color-scheme: dark) {{ {rules(DARK)} }}
"""


def svg(width, height, title, body):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>", f"<style>{style()}</style>",
        f'<rect class="fill-ground" width="{width}" height="{height}" rx="10"/>', *body, "</svg>", ""])


def text(x, y, words, size=13, anchor="start", kind="fill-ink"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


# ---- curve ---------------------------------------------------------------------------------------------------------

def read_scalars(folder, tags):
    """{tag: [(minutes, value)]} of a run's reports, in the order of time."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        sys.exit(f"{folder} has no metrics.jsonl: is it a run's folder?")
    reports = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {tag: [(report["minutes"], report[tag]) for report in reports if report.get(tag) is not None] for tag in tags}


def wilson(rate, games, z=1.96):
    """The 95 % interval of a win rate, as `eval` prints it."""
    middle = (rate + z * z / (2 * games)) / (1 + z * z / games)
    half = z * math.sqrt(rate * (1 - rate) / games + z * z / (4 * games * games)) / (1 + z * z / games)
    return middle - half, middle + half


def means_by_bin(points, begin, end, bins):
    """(middle of the bin, mean) for each bin that has points."""
    sums = [[0.0, 0] for _ in range(bins)]
    for when, value in points:
        place = sums[min(bins - 1, int((when - begin) / max(end - begin, 1e-9) * bins))]
        place[0] += value
        place[1] += 1
    width = (end - begin) / bins
    return [(begin + (i + 0.5) * width, total / count) for i, (total, count) in enumerate(sums) if count]


def round_step(span, most):
    """1, 2 or 5 times a power of ten, so that at most `most` of it fit into `span`."""
    power = 10 ** math.floor(math.log10(max(span, 1e-9) / most))
    return next(power * k for k in (1, 2, 5, 10) if span / (power * k) <= most)


def label_of(value):
    return f"{value:g}"


def count(number, thing):
    return f"{number} {thing}" + ("" if number == 1 else "s")


class Panel:
    """An area with its axes; x is in minutes."""

    def __init__(self, top, height, last_minute, low, high, left=64, width=616):
        self.top, self.height, self.left, self.width = top, height, left, width
        self.last_minute, self.low, self.high = last_minute, low, high

    def x(self, minute):
        return self.left + self.width * minute / self.last_minute

    def y(self, value):
        return self.top + self.height * (self.high - value) / (self.high - self.low)

    def grid(self, step, unit):
        lines = []
        value = math.ceil(self.low / step) * step
        while value <= self.high + 1e-9:
            y = self.y(value)
            lines.append(f'<line class="stroke-line open" x1="{self.left}" x2="{self.left + self.width}" y1="{y:.1f}" y2="{y:.1f}"/>')
            lines.append(text(self.left - 8, y + 4.5, label_of(round(value, 9)) + unit, 12, "end", "fill-faint"))
            value += step
        return lines

    def minutes(self):
        step = round_step(self.last_minute, 8)
        ticks = int(self.last_minute / step + 1e-9) + 1
        bottom = self.top + self.height
        return [text(self.x(i * step), bottom + 19, label_of(round(i * step, 9)), 12, "middle", "fill-faint")
                for i in range(ticks)]

    def path(self, points):
        return " ".join(f"{'M' if i == 0 else 'L'}{self.x(m):.1f},{self.y(v):.1f}" for i, (m, v) in enumerate(points))


def draw_curve(run, out):
    config_file = run / "config.json"
    if not config_file.is_file():
        sys.exit(f"{run} is not a run's folder: it has no config.json")
    config = json.loads(config_file.read_text())
    tags = read_scalars(run, ["eval/win_rate", "reward/total"])
    if not tags["eval/win_rate"]:
        sys.exit(f"{run} has no evaluations: train with --eval_interval")
    last = max(1e-3, *(points[-1][0] for points in tags.values() if points))
    games, opponent = config["eval_games"], config["eval_opponent"].replace("level", "level ")
    win = [(minute, 100 * value) for minute, value in tags["eval/win_rate"]]
    ribbon = [(minute, *(100 * bound for bound in wilson(rate / 100, games))) for minute, rate in win]
    reward = means_by_bin(tags["reward/total"], 0, last, 120)

    first = Panel(98, 240, last, 0, 100)
    body = [text(24, 34, "Win rate and reward of one training run", 17, kind="fill-ink strong"),
            text(24, 54, f"{config['algo'].upper()}, {count(config['run']['world_size'], 'rank')} on {config['run']['device']}, "
                 f"{count(config['num_envs'], 'board')} each, seed {config['seed']}", 13, kind="fill-faint")]
    body += first.grid(25, " %")
    there = " ".join(f"{first.x(m):.1f},{first.y(high):.1f}" for m, _, high in ribbon)
    back = " ".join(f"{first.x(m):.1f},{first.y(low):.1f}" for m, low, _ in reversed(ribbon))
    body.append(f'<polygon points="{there} {back}" class="fill-a" fill-opacity="0.18"/>')
    body.append(f'<path d="{first.path(win)}" class="open stroke-a" stroke-width="2.5" stroke-linejoin="round"/>')
    if len(win) <= 60:
        body += [f'<circle cx="{first.x(m):.1f}" cy="{first.y(v):.1f}" r="3" class="fill-a"/>' for m, v in win]
    where = (first.x(win[-1][0]), first.y(win[-1][1]))
    below = win[-1][1] > 70
    body.append(text(min(where[0], first.left + first.width), where[1] + (24 if below else -14), f"{win[-1][1]:.0f} %", 14,
                     "end", "fill-a strong"))
    body.append(text(first.left, first.top - 11, f"games won against {opponent}, {games} an evaluation, "
                     "with 95 % interval", 13, kind="fill-a strong"))

    if reward:
        values = [value for _, value in reward]
        step = round_step(max(max(values) - min(values), 1.0), 3)
        low, high = math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step
        second = Panel(388, 104, last, low, high)
        body += second.grid(step, "")
        body.append(f'<path d="{second.path(reward)}" class="open stroke-b" stroke-width="2" '
                    'stroke-dasharray="7 3" stroke-linejoin="round"/>')
        body.append(text(second.left, second.top - 11, "the team's game reward in a training game, mean", 13,
                         kind="fill-b strong"))
        lowest = second
    else:
        lowest = first
    body += lowest.minutes()
    bottom = lowest.top + lowest.height + 40
    body.append(text(lowest.left + lowest.width / 2, bottom, "minutes since the start", 13, "middle", "fill-faint"))
    title = (f"Win rate against {opponent} over {last:.0f} minutes of training: from {win[0][1]:.0f} to "
             f"{win[-1][1]:.0f} percent")
    out.write_text(svg(704, int(bottom + 16), title, body))


# ---- game ----------------------------------------------------------------------------------------------------------

ROWS, COLUMNS, CELL = 10, 20, 34
STEPS = {"^": (-1, 0), "v": (1, 0), "<": (0, -1), ">": (0, 1), "r": (0, 2), "d": (2, 0)}
TOWARDS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def read_board(path):
    """Rows of the first board in a text, and the notes below it by their first word."""
    rows, notes = [], {}
    for line in path.read_text().splitlines():
        if len(rows) < ROWS:
            rows = rows + [line.strip()] if re.fullmatch(r"[.oA-F^v<>rd]{20}", line.strip()) else []
        elif re.match(r"([A-F]|beans|step|returns)( |$)", line):
            word, *rest = line.split()
            notes[word] = rest
        else:
            break
    if len(rows) < ROWS or "step" not in notes:
        sys.exit(f"{path} holds no board; make one with: ./snake_ddp eval --team_a A --team_b B --show 150 > {path}")
    return rows, notes


def follow(rows, place):
    row, column = place
    down, right = STEPS[rows[row][column]]
    return (row + down) % ROWS, (column + right) % COLUMNS


def bodies(rows):
    """{letter: [(place, step towards the head or None)], head first}."""
    before, heads = {}, {}
    for row in range(ROWS):
        for column in range(COLUMNS):
            mark = rows[row][column]
            if mark in STEPS:
                before[follow(rows, (row, column))] = (row, column)
            elif mark in "ABCDEF":
                heads[mark] = (row, column)
    found = {}
    for letter, place in sorted(heads.items()):
        cells = [(place, None)]
        while place in before:
            place = before[place]
            cells.append((place, STEPS[rows[place[0]][place[1]]]))
        found[letter] = cells
    return found


def centre(place, left, top):
    return left + (place[1] + 0.5) * CELL, top + (place[0] + 0.5) * CELL


def body_path(cells, left, top):
    """Lines from tail to head; one that leaves the board goes on at the other side."""
    x, y = centre(cells[-1][0], left, top)
    path = [f"M{x:.1f},{y:.1f}"]
    for (place, step), (ahead, _) in zip(reversed(cells[1:]), reversed(cells[:-1])):
        x, y = centre(place, left, top)
        ahead_x, ahead_y = centre(ahead, left, top)
        out_x, out_y = x + step[1] * CELL, y + step[0] * CELL
        if (round(out_x), round(out_y)) != (round(ahead_x), round(ahead_y)):
            path.append(f"L{out_x:.1f},{out_y:.1f} M{ahead_x - step[1] * CELL:.1f},{ahead_y - step[0] * CELL:.1f}")
        path.append(f"L{ahead_x:.1f},{ahead_y:.1f}")
    return " ".join(path)


def draw_snake(letter, cells, direction, left, top):
    colour = "a" if letter in "ABC" else "b"
    path = body_path(cells, left, top)
    parts = [f'<path d="{path}" class="open stroke-{colour}" stroke-width="{CELL * 0.64:.1f}" stroke-linecap="round" '
             'stroke-linejoin="round" stroke-opacity="0.82"/>']
    if colour == "b":
        parts.append(f'<path d="{path}" class="open stroke-ground" stroke-width="4" stroke-dasharray="0.1 8.5" '
                     'stroke-linecap="round" stroke-opacity="0.9"/>')
    x, y = centre(cells[0][0], left, top)
    half = CELL * 0.47
    if colour == "a":
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{half:.1f}" class="fill-a"/>')
    else:
        parts.append(f'<rect x="{x - half:.1f}" y="{y - half:.1f}" width="{2 * half:.1f}" height="{2 * half:.1f}" rx="4" '
                     'class="fill-b"/>')
    down, right = TOWARDS[direction]
    for side in (-1, 1):
        eye_x = x + right * CELL * 0.20 + side * down * CELL * 0.19
        eye_y = y + down * CELL * 0.20 + side * right * CELL * 0.19
        parts.append(f'<circle cx="{eye_x:.1f}" cy="{eye_y:.1f}" r="{CELL * 0.11:.1f}" class="fill-eye"/>')
    return parts


def draw_letter(letter, cells, left, top):
    if len(cells) < 2:
        return []
    x, y = centre(cells[1][0], left, top)
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{CELL * 0.25:.1f}" class="fill-ground"/>',
            text(x, y + 4.6, letter, 13, "middle", ("fill-a" if letter in "ABC" else "fill-b") + " strong")]


def draw_game(board, out, names):
    rows, notes = read_board(board)
    snakes = bodies(rows)
    left, top = 24, 84
    width, height = COLUMNS * CELL, ROWS * CELL
    right = left + width
    score = notes.get("returns", ["?", "?"])
    body = [f'<circle cx="{left + 9}" cy="30" r="9" class="fill-a"/>',
            text(left + 26, 36, f"{names[0]}  {score[0]}", 18, kind="fill-a strong"),
            f'<rect x="{right - 18}" y="21" width="18" height="18" rx="3" class="fill-b"/>',
            text(right - 26, 36, f"{score[1]}  {names[1]}", 18, "end", "fill-b strong"),
            text(left + width / 2, 36, f"step {int(notes['step'][0]) - 1} of 200", 14, "middle", "fill-faint")]
    for letters, x, anchor in (("ABC", left, "start"), ("DEF", right, "end")):
        lengths = "   ".join(f"{letter}: {notes[letter][2]} long" for letter in letters if letter in notes)
        body.append(text(x, 64, lengths, 13, anchor, "fill-faint"))
    body.append(f'<clipPath id="board"><rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/></clipPath>')
    body.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6" class="fill-cell"/>')
    body.append('<g clip-path="url(#board)">')
    lines = [f"M{left},{top + r * CELL}h{width}" for r in range(1, ROWS)]
    lines += [f"M{left + c * CELL},{top}v{height}" for c in range(1, COLUMNS)]
    body.append(f'<path d="{" ".join(lines)}" class="stroke-line open"/>')
    for row in range(ROWS):
        for column in range(COLUMNS):
            if rows[row][column] == "o":
                x, y = centre((row, column), left, top)
                body.append(f'<path d="M{x:.1f},{y - 9:.1f}l9,9l-9,9l-9,-9z" class="fill-bean"/>')
    for letter, cells in snakes.items():
        body += draw_snake(letter, cells, notes[letter][0], left, top)
    for letter, cells in snakes.items():
        body += draw_letter(letter, cells, left, top)
    body.append("</g>")
    body.append(text(left, top + height + 22, "Round heads: team A. Square heads and dotted bodies: team B. Diamonds: beans.", 12,
                     kind="fill-faint"))
    body.append(text(left, top + height + 40, "What leaves the board on one side comes in on the other.", 12,
                     kind="fill-faint"))
    title = f"A board of snakes 3v3: {names[0]} {score[0]}, {names[1]} {score[1]}"
    out.write_text(svg(width + 2 * left, top + height + 56, title, body))


# ---- film ----------------------------------------------------------------------------------------------------------

STEP_SECONDS = 0.2


def turns(cells, left, top):
    """A body from tail to head as one path: a letter for each straight piece; over a border it goes on at the other side."""
    x, y = centre(cells[-1], left, top)
    path, piece = [f"M{x:.0f} {y:.0f}"], ["", 0]

    def end_piece():
        if piece[1]:
            path.append(f"{piece[0]}{piece[1]}")
        piece[1] = 0

    for place, ahead in zip(reversed(cells[1:]), reversed(cells[:-1])):
        down, right = ((there - here + side // 2) % side - side // 2
                       for there, here, side in zip(ahead, place, (ROWS, COLUMNS)))
        way, length = ("v", down * CELL) if down else ("h", right * CELL)
        if way != piece[0]:
            end_piece()
        piece[0] = way
        piece[1] += length
        if (place[0] + down, place[1] + right) != tuple(ahead):
            end_piece()
            x, y = centre(ahead, left, top)
            path.append(f"M{x - right * CELL:.0f} {y - down * CELL:.0f}{way}{length}")
    end_piece()
    return "".join(path)


def draw_frame(board, left, top):
    parts = []
    for row, column in board["beans_position"]:
        x, y = centre((row, column), left, top)
        parts.append(f'<path d="M{x:.0f} {y - 9:.0f}l9 9-9 9-9-9z" class="fill-bean"/>')
    for i, cells in enumerate(board["snakes_position"]):
        if not cells:
            continue
        colour = "a" if i < 3 else "b"
        parts.append(f'<path d="{turns(cells, left, top)}" class="{colour}"/>')
        x, y = centre(cells[0], left, top)
        parts.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="15" class="fill-a"/>' if i < 3 else
                     f'<path d="M{x - 15:.0f} {y - 15:.0f}h30v30h-30z" class="fill-b"/>')
    return parts


def draw_film(log, out, names):
    game = json.loads(log.read_text())
    boards = [game["init_info"]] + [step["info_after"] for step in game["steps"]]
    score = [0, 0]
    scores = [(0, 0)]
    for step in game["steps"]:
        score = [score[team] + sum(step["reward"][3 * team:3 * team + 3]) for team in range(2)]
        scores.append(tuple(score))
    left, top = 24, 60
    width, height = COLUMNS * CELL, ROWS * CELL
    whole = len(boards) * STEP_SECONDS
    body = [f"""<style>
  .a, .b {{ fill: none; stroke-width: 22; stroke-linejoin: round; stroke-opacity: 0.8; }}
  .a {{ stroke: {LIGHT['a']}; stroke-linecap: round; }} .b {{ stroke: {LIGHT['b']}; stroke-linecap: butt; }}
  @media (prefers-color-scheme: dark) {{ .a {{ stroke: {DARK['a']}; }} .b {{ stroke: {DARK['b']}; }} }}
  .f {{ visibility: hidden; animation: f {whole:.1f}s step-end infinite; }}
  @keyframes f {{ 0% {{ visibility: visible; }} {100 / len(boards):.3f}% {{ visibility: hidden; }} }}
  @media (prefers-reduced-motion: reduce) {{ .f {{ animation: none; }} .f:last-of-type {{ visibility: visible; }} }}
</style>""",
            f'<circle cx="{left + 9}" cy="30" r="9" class="fill-a"/>', text(left + 26, 36, names[0], 18, kind="fill-a strong"),
            f'<rect x="{left + width - 18}" y="21" width="18" height="18" rx="3" class="fill-b"/>',
            text(left + width - 26, 36, names[1], 18, "end", "fill-b strong"),
            f'<clipPath id="board"><rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/></clipPath>',
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6" class="fill-cell"/>',
            '<g clip-path="url(#board)">']
    lines = [f"M{left},{top + r * CELL}h{width}" for r in range(1, ROWS)]
    lines += [f"M{left + c * CELL},{top}v{height}" for c in range(1, COLUMNS)]
    body.append(f'<path d="{" ".join(lines)}" class="stroke-line open"/></g>')
    for number, board in enumerate(boards):
        told = text(left + width / 2, 36, f"{scores[number][0]} : {scores[number][1]}, step {number} of 200", 14, "middle")
        frame = "".join(draw_frame(board, left, top))
        body.append(f'<g class="f" style="animation-delay:{number * STEP_SECONDS - whole:.1f}s">{told}'
                    f'<g clip-path="url(#board)">{frame}</g></g>')
    title = f"A game of snakes 3v3, step by step: {names[0]} {scores[-1][0]}, {names[1]} {scores[-1][1]}"
    out.write_text(svg(width + 2 * left, top + height + 20, title, body))


# ---- page ----------------------------------------------------------------------------------------------------------

def take_picture(page, out, place, dark):
    from PIL import Image
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                               {"width": 960, "height": 880, "deviceScaleFactor": 1.5, "mobile": False})
        driver.get(f"{page.resolve().as_uri()}#{place}")
        picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
        picture.quantize(160).save(out, optimize=True)
    finally:
        driver.quit()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    curve = commands.add_parser("curve", help="win rate and reward over time")
    curve.add_argument("run", type=pathlib.Path)
    curve.add_argument("out", type=pathlib.Path)
    game = commands.add_parser("game", help="one board")
    game.add_argument("board", type=pathlib.Path)
    game.add_argument("out", type=pathlib.Path)
    game.add_argument("--team_a", default="team A", help="its name in the picture")
    game.add_argument("--team_b", default="team B", help="its name in the picture")
    film = commands.add_parser("film", help="a whole game")
    film.add_argument("game", type=pathlib.Path)
    film.add_argument("out", type=pathlib.Path)
    film.add_argument("--team_a", default="team A", help="its name in the picture")
    film.add_argument("--team_b", default="team B", help="its name in the picture")
    page = commands.add_parser("page", help="a page of replay or report")
    page.add_argument("page", type=pathlib.Path)
    page.add_argument("out", type=pathlib.Path)
    page.add_argument("--at", default="", help="what follows # in the address: a step, or step=157&snake=C; of a report an axis")
    page.add_argument("--dark", action="store_true")
    line = parser.parse_args()
    if line.command == "curve":
        draw_curve(line.run, line.out)
    elif line.command == "page":
        take_picture(line.page, line.out, line.at, line.dark)
    elif line.command == "film":
        draw_film(line.game, line.out, (line.team_a, line.team_b))
    else:
        draw_game(line.board, line.out, (line.team_a, line.team_b))


if __name__ == "__main__":
    main()
