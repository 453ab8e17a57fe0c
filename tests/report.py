"""Sums up what ctest and the test programs reported; the last line is `N passed, N failed`.

A ctest entry that failed, or that left no readable report, counts as failed even where no single case did. Only what
MAY_SKIP lists may be skipped, so that a suite cannot pass by skipping.
"""
import collections
import os
import pathlib
import sys
import xml.etree.ElementTree as xml

# These need root, or packages that not every distribution has; continuous integration has both. It has no GPU.
MAY_SKIP = {"test_device.device"} | (
    set() if os.environ.get("CI") else {"test_disk.resume", "test_slurm.launch", "test_two_nodes.launch"})
REQUIRED_LABELS = {"unit", "property", "golden", "dist", "launch", "repo"}


def entries(build):
    """(name, passed) of each ctest entry that ran."""
    for case in xml.parse(build / "ctest.xml").getroot().iter("testcase"):
        yield case.get("name"), case.get("status") == "run"


def cases(report):
    """(passed, failed, reasons of skips) of one program's report; None where there is none."""
    if not report.exists():
        return None
    try:
        root = xml.parse(report).getroot()
    except xml.ParseError:
        return 0, 1, []
    passed = failed = 0
    skipped = []
    for result in root.iter("OverallResult"):  # Catch2's own form: that for JUnit keeps, and writes out, every assertion that held
        passed += result.get("success") == "true"
        failed += result.get("success") != "true"
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif (skip := case.find("skipped")) is not None:
            skipped.append(skip.get("message") or "no reason given")
        else:
            passed += 1
    return passed, failed, skipped


def main():
    totals = collections.defaultdict(lambda: [0, 0, 0])
    broken = []
    skips = []
    unwanted_skips = 0
    whole_suite = len(sys.argv) > 2
    for build in map(pathlib.Path, sys.argv[1:]):
        for name, entry_passed in entries(build):
            label = f"{name.rsplit('.', 1)[-1]}" + ("" if build.name == "release" else f" ({build.name})")
            counts = cases(build / "junit" / f"{name}.xml")
            if counts is None:  # a plain command without a report of its own
                counts = (1, 0, []) if entry_passed else (0, 1, [])
            if not entry_passed and counts[1] == 0:
                counts = (counts[0], 1, counts[2])
            if not entry_passed or counts[1]:
                broken.append(f"{build.name}: {name}")
            skips += [f"skipped {build.name}: {name}: {reason}" for reason in dict.fromkeys(counts[2])]
            unwanted_skips += 0 if name in MAY_SKIP else len(counts[2])
            for i, n in enumerate((counts[0], counts[1], len(counts[2]))):
                totals[label][i] += n

    print(f"{'label':<20} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for label, (passed, failed, skipped) in sorted(totals.items()):
        print(f"{label:<20} {passed:>7} {failed:>7} {skipped:>8}")
    passed, failed, _ = (sum(column) for column in zip(*totals.values())) if totals else (0, 0, 0)
    for line in skips:
        print(line)
    for name in broken:
        print(f"FAILED {name}")
    if unwanted_skips:
        print(f"FAILED {unwanted_skips} tests were skipped that must run")
        failed += 1
    if whole_suite:
        for label in sorted(REQUIRED_LABELS):
            if totals[label][0] == 0:
                print(f"FAILED no test with label {label} passed")
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
