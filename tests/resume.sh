#!/usr/bin/env bash
# tests/resume.sh [--draws N] [--seed S]: runs with random settings, each resumed from random checkpoints. Fails on other bits.
set -euo pipefail
cd "$(dirname "$0")/.."
export SD_SOURCE_DIR=$PWD SD_BUILD_DIR=${SD_BUILD_DIR:-$PWD/build/release} PYTHONPATH=$PWD/tests
exec "${SNAKE_DDP_PYTHON:-.venv/bin/python3}" tests/train/resume_draws.py "$@"
