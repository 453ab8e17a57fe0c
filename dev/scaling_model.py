#!/usr/bin/env python3
"""What more ranks would bring: an alpha-beta model of an update, for rings of P ranks.

  T(P) = compute + calls * (2 (P - 1) alpha + 2 (P - 1) / P * bytes * beta)

alpha is the time of a message of no length to a neighbour, beta the time of a byte. An all-reduce on a ring sends 2 (P - 1)
messages of bytes / P one after the other. With two ranks it takes 2 alpha + bytes * beta: a line, so both follow from
measured times of two ranks. Not in the model: ranks that wait for the slowest one.

  build/release/dev/bench/bench allreduce --json > allreduce.json
  dev/scaling_model.py fit allreduce.json
  dev/scaling_model.py table --compute_us 750 --alpha_us 20 --beta_ns 0.3 [--bytes 36400] [--calls 2] [--ranks 2 4 8]
  dev/scaling_model.py predict --compute_us 750 [--gpu_compute_us 200]

Ranks of one machine add in shared memory, which the model takes as free; one of each machine talks to the others: a ring of
machines, or, between two, one message each way, alpha + bytes * beta. With --local_updates K (src/train/averaging.hpp), per update:

  local  compute + (alpha + 4 * calls * bytes * beta) / K + alpha / max(20, K)        weights, targets and both moments, once in K

The last term is the ranks' votes.

  dev/nodes.py --out nodes && dev/scaling_model.py compare nodes.json       beside what was measured between two machines
"""
import argparse
import json
import pathlib
import re
import sys

BYTES = 36_400  # of a network's averaged gradient at 30 features and 256 hidden units
CALLS = 2        # the critic's, then the actor's
VOTE = 20        # updates between two votes, at least
COPIES = 4       # of a network: weights, target, two moments

# Times of an all-reduce that others published, in microseconds by bytes.
NVLINK_8 = {2_048: 19.8, 131_072: 19.3, 262_144: 19.5, 1_048_576: 25.9}  # 8 GPUs, NCCL; sglang #22734
ETHERNET_2 = {1_024: 354.0}  # two hosts, Gloo over TCP; gloo #158
ETHERNET_BETA_NS = {"10 Gbit/s": 0.8, "1 Gbit/s": 8.0}  # from the line's own speed


def fit(points):
    """(a, b) of a + b * bytes, least squares of the relative error: small messages count as much as large ones."""
    weights = [(size, us, 1.0 / us ** 2) for size, us in points]
    total = sum(w for _, _, w in weights)
    mean_size = sum(w * size for size, _, w in weights) / total
    mean_us = sum(w * us for _, us, w in weights) / total
    spread = sum(w * (size - mean_size) ** 2 for size, _, w in weights)
    slope = sum(w * (size - mean_size) * (us - mean_us) for size, us, w in weights) / spread
    return mean_us - slope * mean_size, slope


def ring(points, ranks):
    """alpha in microseconds and beta in microseconds a byte, from times of `ranks` ranks."""
    a, b = fit(points)
    return a / (2 * (ranks - 1)), b * ranks / (2 * (ranks - 1))


def all_reduce_us(ranks, size, alpha_us, beta_us):
    return 2 * (ranks - 1) * alpha_us + 2 * (ranks - 1) / ranks * size * beta_us


def update_us(ranks, compute_us, size, calls, alpha_us, beta_us):
    return compute_us + calls * all_reduce_us(ranks, size, alpha_us, beta_us)


def machines_us(machines, size, alpha_us, beta_us):
    return alpha_us + size * beta_us if machines == 2 else all_reduce_us(machines, size, alpha_us, beta_us)


def local_us(compute_us, machines, size, calls, alpha_us, beta_us, interval):
    vote_us = machines_us(machines, 0, alpha_us, beta_us)
    return compute_us + machines_us(machines, COPIES * calls * size, alpha_us, beta_us) / interval + vote_us / max(VOTE, interval)


def compared(rows, size, calls):
    """[(row, {scheme: share})] of dev/nodes.py's rows: the share of the runs apart that the model gives each scheme that was
    measured. Gloo's message is sent once its receiver has said that it waits: alpha is a round trip."""
    found = []
    for row in rows:
        ranks = 2 * row["ranks"]
        compute_us = 1e6 * ranks / row["apart"]
        alpha_us, beta_us = row["round_trip_us"], 8e-3 / row["gbit"]
        line = (size, calls, alpha_us, beta_us)
        times_us = {"nodes": compute_us + calls * machines_us(2, size, alpha_us, beta_us),
                    "local": local_us(compute_us, 2, *line, row.get("interval", 1))}
        found.append((row, {kind: compute_us / us for kind, us in times_us.items() if kind in row}))
    return found


def efficiency(ranks, compute_us, size, calls, alpha_us, beta_us):
    """Work of `ranks` ranks over `ranks` times the work of one."""
    return compute_us / update_us(ranks, compute_us, size, calls, alpha_us, beta_us)


def least_compute_us(ranks, size, calls, alpha_us, beta_us, wanted=0.9):
    """The compute of an update from which on the efficiency is `wanted` or more."""
    return wanted / (1 - wanted) * calls * all_reduce_us(ranks, size, alpha_us, beta_us)


def print_table(title, compute_us, size, calls, alpha_us, beta_us, ranks):
    print(f"{title}: compute {compute_us:.0f} us, alpha {alpha_us:.2f} us, beta {1000 * beta_us:.4f} ns a byte, "
          f"{calls} x {size / 1000:.0f} kB\n")
    print("| ranks | all-reduces, us | update, us | efficiency | 90 % from a compute of, us |\n|---|---|---|---|---|")
    for p in ranks:
        spent = calls * all_reduce_us(p, size, alpha_us, beta_us)
        share = efficiency(p, compute_us, size, calls, alpha_us, beta_us)
        print(f"| {p} | {spent:.0f} | {compute_us + spent:.0f} | {100 * share:.1f} % | "
              f"{least_compute_us(p, size, calls, alpha_us, beta_us):.0f} |")
    print()


def sizes_of(document, way):
    """[(bytes, us)] of the rows allreduce_5kB_<way> and, for `plain`, of what they were held against."""
    points = []
    for row in document["benches"]:
        if found := re.fullmatch(r"allreduce_(\d+)(kB|MB)_(\w+)", row["name"]):
            size = int(found[1]) * {"kB": 1_000, "MB": 1_000_000}[found[2]]
            if found[3] == way:
                points.append((size, row["value"]))
            elif way == "plain" and found[3] == "gloo":
                points.append((size, row["limit"]))
    return points


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    fitting = commands.add_parser("fit", help="alpha and beta from `bench allreduce --json` of two ranks")
    fitting.add_argument("file", type=pathlib.Path)
    table = commands.add_parser("table", help="a table for given alpha and beta")
    table.add_argument("--alpha_us", type=float, required=True)
    table.add_argument("--beta_ns", type=float, required=True)
    predict = commands.add_parser("predict", help="8 GPUs on NVLink and 8 nodes on Ethernet, from published latencies")
    predict.add_argument("--gpu_compute_us", type=float, default=200,
                         help="of an update on a GPU; 200 is a guess from published launch times, nothing measured")
    compare = commands.add_parser("compare", help="the model beside what dev/nodes.py measured")
    compare.add_argument("file", type=pathlib.Path)
    compare.add_argument("--bytes", type=float, default=BYTES)
    compare.add_argument("--calls", type=int, default=CALLS)
    for command in (table, predict):
        command.add_argument("--compute_us", type=float, required=True, help="of an update on one rank, all-reduces apart")
        command.add_argument("--bytes", type=float, default=BYTES)
        command.add_argument("--calls", type=int, default=CALLS)
        command.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16, 32])
    line = parser.parse_args()

    if line.command == "fit":
        document = json.loads(line.file.read_text())
        print("| way | alpha, us | beta, ns a byte | GB/s |\n|---|---|---|---|")
        for way in ("shared_memory", "gloo", "plain"):
            points = sizes_of(document, way)
            if len(points) < 2:
                sys.exit(f"{line.file} has no rows allreduce_<size>_{way}: make it with `bench allreduce --json`")
            alpha_us, beta_us = ring(points, 2)
            print(f"| {way} | {alpha_us:.1f} | {1000 * beta_us:.3f} | {1e-3 / beta_us:.2f} |")
    elif line.command == "compare":
        rows = compared(json.loads(line.file.read_text()), line.bytes, line.calls)
        heads = ["Gbit/s", "delay, ms", *(head for kind in rows[0][1] for head in (f"{kind} / apart", "model"))]
        print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        for row, shares in rows:
            cells = [f"{row['gbit']:g}", f"{row['delay_ms']:g}"]
            for kind, share in shares.items():
                cells += [f"{row[kind] / row['apart']:.3f}", f"{share:.3f}"]
            print(f"| {' | '.join(cells)} |")
    elif line.command == "table":
        print_table("given", line.compute_us, line.bytes, line.calls, line.alpha_us, line.beta_ns / 1000, line.ranks)
    else:
        alpha_us, beta_us = ring(sorted(NVLINK_8.items()), 8)
        print_table("GPUs on NVLink", line.gpu_compute_us, line.bytes, line.calls, alpha_us, beta_us,
                    [p for p in line.ranks if p <= 8])
        (size, us), = ETHERNET_2.items()
        for speed, beta_ns in ETHERNET_BETA_NS.items():
            alpha_us = (us - size * beta_ns / 1000) / 2
            print_table(f"nodes on Ethernet of {speed}", line.compute_us, line.bytes, line.calls, alpha_us, beta_ns / 1000,
                        line.ranks)


if __name__ == "__main__":
    main()
