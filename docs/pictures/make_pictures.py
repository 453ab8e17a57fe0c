#!/usr/bin/env python3
"""Draws the pictures of the documentation.

  make_pictures.py film  GAME.json  OUT.svg   a game as `./snake_ddp eval --record FOLDER` writes it, step by step
  make_pictures.py page  PAGE.html  OUT.png   a page that `./snake_ddp replay` or `report` made, in Chromium

Needs nothing but Python, and for `page` what the tests need. The SVG pictures follow the reader's light or dark setting. Teams differ in shape as well as in colour.
"""
import argparse
import io
import json
import pathlib
import shutil
from xml.sax.saxutils import escape

# Blue and orange of Okabe and Ito's palette, which people with any kind of colour vision can tell apart; lighter ones on
# dark ground.
LIGHT = dict(ground="#ffffff", ink="#24292f", faint="#6e7781", line="#d8dee4", cell="#f3f5f7", a="#0072b2", b="#d55e00",
             bean="#117a52")
DARK = dict(ground="#0d1117", ink="#e6edf3", faint="#9198a1", line="#30363d", cell="#161b22", a="#56b4e9", b="#e69f00",
            bean="#4ac58a")


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


# ---- film ----------------------------------------------------------------------------------------------------------

ROWS, COLUMNS, CELL = 10, 20, 34
STEP_SECONDS = 0.2


def centre(place, left, top):
    return left + (place[1] + 0.5) * CELL, top + (place[0] + 0.5) * CELL


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
    if line.command == "page":
        take_picture(line.page, line.out, line.at, line.dark)
    else:
        draw_film(line.game, line.out, (line.team_a, line.team_b))


if __name__ == "__main__":
    main()
