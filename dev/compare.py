"""The table of compare.sh: reads a0.json, b0.json, a1.json ... of a folder."""
import json
import pathlib
import statistics
import sys


def times(path):
    """{name: (time of one thing, its unit)} of a result."""
    return {row["name"]: (1e6 / row["value"], f"us/{row['unit'].split('s/')[0]}") if row["unit"].endswith("s/s")
            else (row["value"], row["unit"]) for row in json.loads(path.read_text())["benches"]}


def table(folder, rounds):
    """(name, unit, median of a, of b, median of b/a, least, greatest); ratios are of the same round."""
    a, b = ([times(folder / f"{which}{k}.json") for k in range(rounds)] for which in "ab")
    for name in a[0]:
        if name not in b[0]:
            continue
        ratios = sorted(b[k][name][0] / a[k][name][0] for k in range(rounds))
        yield (name, a[0][name][1], statistics.median(r[name][0] for r in a), statistics.median(r[name][0] for r in b),
               statistics.median(ratios), ratios[0], ratios[-1])


def main():
    folder, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    rows = list(table(folder, rounds))
    if not rows:
        sys.exit("the two have no bench of that name in common")
    print(f"{'time of':<34} {'unit':<10} {'A':>10} {'B':>10} {'B / A':>7}   least .. greatest of {rounds} rounds")
    for name, unit, a, b, ratio, least, greatest in rows:
        print(f"{name:<34} {unit:<10} {a:>10.4g} {b:>10.4g} {ratio:>7.3f}   {least:.3f} .. {greatest:.3f}")


if __name__ == "__main__":
    main()
