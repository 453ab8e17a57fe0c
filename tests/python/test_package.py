"""The wheel and the sdist: tags, contents, stub, and what their checkers say."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

import pytest
from conftest import ROOT

import snake_ddp
from snake_ddp import _core

FOLDER = pathlib.Path(sys.prefix).parent  # of make_package.py
OTHERS = pathlib.Path((pathlib.Path(sysconfig.get_path("purelib")) / "others.pth").read_text().strip())


def checker(name, *arguments):
    done = subprocess.run([OTHERS.parents[2] / "bin" / name, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel():
    (found,) = (FOLDER / "wheel").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist():
    (found,) = (FOLDER / "dist").glob("*.tar.gz")
    return found


def test_the_package_is_that_of_the_wheel():
    assert pathlib.Path(snake_ddp.__file__).is_relative_to(sysconfig.get_path("purelib"))
    (version,) = re.findall(r"project\(snake_ddp VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert snake_ddp.__version__ == version == importlib.metadata.version("snake_ddp")


def test_one_wheel_serves_all_pythons(wheel):
    version = snake_ddp.__version__
    assert re.fullmatch(rf"snake_ddp-{version}-cp310-abi3-linux_\w+\.whl", wheel.name)
    checker("abi3audit", "--strict", str(wheel))


def test_wheel_and_sdist_are_fit_for_an_index(wheel, sdist):
    checker("twine", "check", "--strict", str(wheel), str(sdist))
    checker("check-wheel-contents", str(wheel))


def test_the_wheel_has_what_is_needed_and_no_more(wheel):
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    package = ROOT / "python/snake_ddp"
    tracked = subprocess.run(["git", "-C", str(package), "ls-files", "."], capture_output=True, text=True, check=True).stdout.split()
    modules = {f"snake_ddp/_core_{level}.abi3.so" for level in ("v2", "v3", "v4")}
    assert set(names) == {f"snake_ddp/{name}" for name in tracked} | modules
    licences = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("LICENSE")]
    assert sorted(name.split("/licenses/")[1] for name in licences) == ["LICENSE", "third_party/fmt/LICENSE", "third_party/random123/LICENSE"]
    assert wheel.stat().st_size < 2_000_000


def test_the_sdist_has_no_file_that_git_does_not_track(sdist):
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    names = {member.name.split("/", 1)[1] for member in tarfile.open(sdist).getmembers() if member.isfile()}
    assert names - set(tracked) <= {"PKG-INFO"}
    assert not any(name.startswith(("tests/", "models/", "src/train/")) for name in names)


def test_the_modules_do_not_need_torch_or_fmt(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    for module in (tmp_path / "snake_ddp").glob("*.so"):
        needed = subprocess.run(["readelf", "-d", str(module)], capture_output=True, text=True, check=True).stdout
        libraries = set(re.findall(r"NEEDED.*\[(.*?)\.so", needed))
        assert libraries <= {"libstdc++", "libgcc_s", "libc", "libm", "libpthread", "ld-linux-x86-64"}, module.name


def test_the_stub_is_up_to_date(tmp_path):
    module = f"snake_ddp._core_{_core.level()}"
    done = subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-P", "-m", module, "-o", str(tmp_path / "_core.pyi")],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "_core.pyi").read_text() == (ROOT / "python/snake_ddp/_core.pyi").read_text(), (
        f"{' '.join(done.args[1:6])} -o python/snake_ddp/_core.pyi"
    )
    for name in re.findall(r"^(?:def|class) (\w+)", (tmp_path / "_core.pyi").read_text(), re.M):
        assert getattr(_core, name) is getattr(sys.modules[module], name)


def test_each_public_name_is_described():
    for name in snake_ddp.__all__:
        assert name in ("STATE", "__version__") or getattr(snake_ddp, name).__doc__, name
    assert issubclass(snake_ddp.Error, Exception)


GAMES = """
import hashlib, numpy as np, snake_ddp
from snake_ddp import _core
for obs, opponent, reward in (("view", "level2:1,territory:1", "score"), ("30", "level0", "2021"), ("window", "evasion", "v1_2")):
    batch = snake_ddp.Boards(64, obs=obs, opponent=opponent, reward=reward, swap_sides=True)
    batch.reset(seed=20260131)
    rng, seen = np.random.default_rng(5), hashlib.sha256()
    for _ in range(500):
        batch.step(rng.integers(0, 4, (64, 3), dtype=np.uint8))
        seen.update(batch.observations.tobytes() + batch.rewards.tobytes())
    print(batch.hash(), seen.hexdigest()[:16])
print(_core.level())
"""
# The boards after these 500 steps, and all that was seen, as they have always been.
ALWAYS = ["14077312822322275885 59a82d61de5270aa", "7900367246213318611 8e54a006b9613c32", "4516473232998442970 ecc6a6176ed8ae7f"]


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_each_level_that_the_processor_has_plays_the_same_games(level):
    done = subprocess.run([sys.executable, "-c", GAMES], capture_output=True, text=True, env={**os.environ, "SNAKE_DDP_CPU": level})
    if level > _core.best_level():
        assert f"SNAKE_DDP_CPU is '{level}', but this processor has x86-64-{_core.best_level()} at most" in done.stderr
    else:
        assert done.stdout.splitlines() == [*ALWAYS, level], done.stderr
