"""Another project includes the game's rooms and links them into a shared library, as a Python extension does."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE, BUILD = Path(os.environ["SD_SOURCE_DIR"]), Path(os.environ["SD_BUILD_DIR"])
CMAKE = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")

PROJECT = """
cmake_minimum_required(VERSION 3.28)
project(other LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(SNAKE_DDP_ROOMS game)
add_subdirectory(${SNAKE_DDP} snake_ddp)
add_library(other MODULE other.cpp)
target_link_libraries(other PRIVATE snake_ddp_play)
"""

# The unused parameter: another project's code is not held to our warnings.
OTHER = """
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/play/match.hpp"
#include "snake_ddp/play/obs_spec.hpp"
#include "snake_ddp/play/mover.hpp"

using namespace snake_ddp;

extern "C" int wins(int games, int unused) {
  play::MatchOptions options;
  options.games = games;
  return static_cast<int>(play::play_match(play::scripted(game::Opponent::kTerritory),
                                           play::scripted(game::Opponent::kLevel2), options).wins);
}

extern "C" long simulations() { return static_cast<long>(play::try_spec("puct400")->count); }

extern "C" float product() {
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
  float out[4] = {};
  kernels::multiply(2, 2, 2, {a, 2, 1}, {b, 2, 1}, out, 2, false);
  return out[3];
}
"""


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_another_project_links_the_game_into_a_shared_library():
    project = BUILD / "embedding"  # a fixed place, for the compiler cache
    shutil.rmtree(project, ignore_errors=True)
    build = project / "build"
    build.mkdir(parents=True)
    (project / "CMakeLists.txt").write_text(PROJECT)
    (project / "other.cpp").write_text(OTHER)
    # Nothing may be asked for that is not on every machine with a compiler, fmt and Random123.
    absent = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON"
              for name in ("Python3", "Torch", "nlohmann_json", "CLI11", "ZLIB", "Catch2")]
    run(CMAKE, "-S", project, "-B", build, "-G", "Ninja", f"-DSNAKE_DDP={SOURCE}", "-DCMAKE_BUILD_TYPE=Release", *absent)
    said = run(CMAKE, "--build", build)
    assert "warning" not in said

    other = ctypes.CDLL(str(build / "libother.so"))
    other.product.restype = ctypes.c_float
    assert other.product() == 3 * 6 + 4 * 8
    assert other.simulations() == 400
    match = run(BUILD / "src/app/snake_ddp", "eval", "--team_a", "territory", "--team_b", "level2", "--games", 64, "--seed", 1, "--json")
    assert f'"wins":{other.wins(64, 0)},' in match.replace(" ", "")
