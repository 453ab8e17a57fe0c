#!/usr/bin/env bash
# tests/chaos.sh [--runs N] [--seed S] [--at_once N]: short runs on three ranks, each with one fault at a random moment, started again
# until they are done. Prints a table of faults; fails on a hang, a lost checkpoint, or a result with other bits.
set -euo pipefail
cd "$(dirname "$0")/.."
export SD_SOURCE_DIR=$PWD SD_BUILD_DIR=${SD_BUILD_DIR:-$PWD/build/release} PYTHONPATH=$PWD/tests
exec "${SNAKE_DDP_PYTHON:-.venv/bin/python3}" tests/train/chaos.py "$@"
