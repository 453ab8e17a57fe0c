"""The image and the manifest for Kubernetes: compared with the operator's schema; the container's program is run."""

import copy
import json
import os
import pathlib
import re
import shutil
import sys
import time

import jsonschema
import pytest
import yaml

from processes import DATA, PATIENCE_S, SOURCE, STARTER, descendants, flags, has_become, starter

MANIFEST = SOURCE / "launch" / "kubernetes" / "pytorchjob.yaml"
CONTAINERFILE = SOURCE / "launch" / "Containerfile"
VALIDATOR = jsonschema.Draft202012Validator(json.loads((DATA / "pytorchjob_schema.json").read_text()))
CLAIM, JOB = yaml.safe_load_all(MANIFEST.read_text())
REPLICAS = JOB["spec"]["pytorchReplicaSpecs"]
PODS = {name: replica["template"]["spec"] for name, replica in REPLICAS.items()}


# The manifest


def test_the_job_follows_the_operators_schema():
    VALIDATOR.check_schema(VALIDATOR.schema)
    assert [error.message for error in VALIDATOR.iter_errors(JOB)] == []


def at(job, *path):
    for step in path:
        job = job[step]
    return job


CONTAINER = ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec", "containers", 0)
FAULTS = {
    "a number for a text": lambda job: job["spec"].update(nprocPerNode=4),
    "a text for a number": lambda job: at(job, "spec", "runPolicy").update(backoffLimit="100"),
    "two masters": lambda job: at(job, "spec", "pytorchReplicaSpecs", "Master").update(replicas=2),
    "a replica of another kind": lambda job: at(job, "spec", "pytorchReplicaSpecs").update(Chief={}),
    "another restart policy": lambda job: at(job, "spec", "pytorchReplicaSpecs", "Worker").update(restartPolicy="onFailure"),
    "a container of another name": lambda job: at(job, *CONTAINER).update(name="snake"),
    "no image": lambda job: at(job, *CONTAINER).pop("image"),
    "a field in the wrong place": lambda job: at(job, *CONTAINER).update(terminationGracePeriodSeconds=60),
    "a misspelt field": lambda job: at(job, *CONTAINER, "securityContext").update(readonlyRootFilesystem=True),
    "a variable that is no text": lambda job: at(job, *CONTAINER, "env").append({"name": "N", "value": 1}),
    "a mount without a path": lambda job: at(job, *CONTAINER, "volumeMounts", 0).pop("mountPath"),
    "a wrong amount": lambda job: at(job, *CONTAINER, "resources", "requests").update(memory="4GB"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_schema_notices(fault):
    job = copy.deepcopy(JOB)  # shared parts become separate ones for good
    job = json.loads(json.dumps(job))
    fault(job)
    assert not VALIDATOR.is_valid(job)


@pytest.mark.parametrize("name", PODS)
def test_pods_have_what_the_program_needs_and_no_more(name):
    pod = PODS[name]
    assert pod["terminationGracePeriodSeconds"] >= 25 + 30  # the ranks' own limit, then torchrun's
    assert pod["securityContext"]["runAsNonRoot"] and REPLICAS[name]["restartPolicy"] == "OnFailure"
    container, = pod["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert len(mounts) == len(volumes) and {"/tmp", "/dev/shm"} <= mounts.keys()
    runs = {variable["name"]: variable["value"] for variable in container["env"]}["RUNS_DIR"]
    assert mounts[runs]["persistentVolumeClaim"]["claimName"] == CLAIM["metadata"]["name"]
    assert CLAIM["spec"]["accessModes"] == ["ReadWriteMany"]


# The image


def instructions():
    """(name, words) of each instruction, continued lines joined."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    return [(line.split()[0], line.split()[1:]) for line in text.splitlines() if line.strip()]


def test_the_image_is_made_of_files_that_are_there():
    ignored = (SOURCE / ".dockerignore").read_text().split()
    copied = [word for name, words in instructions() if name == "COPY" and not words[0].startswith("--") for word in words[:-1]]
    assert len(copied) > 8
    for path in copied:
        assert (SOURCE / path).exists(), path
        assert "!" + pathlib.PurePath(path).parts[0] in ignored, f".dockerignore keeps {path} out"
    needed = re.findall(r"^ *add_subdirectory\(([\w/]*\w)", (SOURCE / "CMakeLists.txt").read_text(), flags=re.M)
    assert len(needed) > 3 and set(needed) <= set(copied), "CMakeLists.txt asks for folders that the image does not have"
    kept = [line[1:] for line in ignored if line.startswith("!")]
    assert ignored[0] == "*" and [name for name in kept if not (SOURCE / name).exists()] == []


def test_the_image_is_built_by_the_set_up_and_runs_without_root():
    names = [name for name, _ in instructions()]
    assert names.count("FROM") == 2
    first, last = names.index("FROM"), len(names) - 1 - names[::-1].index("FROM")
    built = " ".join(" ".join(words) for name, words in instructions()[first:last] if name == "RUN")
    assert ". launch/setup.sh" in built
    text = (SOURCE / "launch" / "setup.sh").read_text()
    for function in set(re.findall(r"\bsd_\w+", built)):
        assert re.search(rf"^{function}\(\) ", text, re.M), f"launch/setup.sh has no {function}"
    final = {name: words for name, words in instructions()[last:]}
    user, group = map(int, final["USER"][0].split(":"))
    assert user > 0 and group > 0
    for pod in PODS.values():
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (user, group)
    program, = json.loads(" ".join(final["ENTRYPOINT"]))
    assert os.access(SOURCE / program, os.X_OK)
    assert [words for name, words in instructions()[last:] if name == "COPY" and program in words]
    # The targets of .venv/bin/python3 and of the program's search path must have the same path in both stages.
    assert len({tuple(words) for name, words in instructions() if name == "WORKDIR"}) == 1


# What runs in it


@pytest.fixture
def image(tmp_path):
    """The image's folder, as the container's program finds it."""
    root = tmp_path / "image"
    (root / "launch").mkdir(parents=True)
    for name in ("container.sh", "torchrun.py"):
        shutil.copy(SOURCE / "launch" / name, root / "launch")
    (root / "snake_ddp").symlink_to(STARTER)
    (root / ".venv").symlink_to(pathlib.Path(sys.executable).parent.parent)
    return root


def test_a_container_whose_folder_is_not_there_says_so(image, tmp_path):
    with starter(tmp_path) as start:
        container = start([image / "launch" / "container.sh"], RUNS_DIR=tmp_path / "nowhere")
        assert container.wait() == 4
    assert f"RUNS_DIR={tmp_path / 'nowhere'} is not a folder that user {os.getuid()} may write to" in container.text()


def test_a_container_that_is_stopped_while_it_starts_begins_nothing_and_says_so(image, tmp_path):
    (tmp_path / "runs").mkdir()
    with starter(tmp_path) as start:
        container = start([image / "launch" / "container.sh"], RUNS_DIR=tmp_path / "runs", PET_NPROC_PER_NODE=1)
        until = time.monotonic() + PATIENCE_S
        while not any(has_become(pid, sys.executable) for pid in descendants(container.popen.pid)):
            assert container.popen.poll() is None and time.monotonic() < until, container.text()
            time.sleep(0.002)
        container.popen.terminate()
        assert container.wait() == 75, container.text()
    assert "stopped by a signal before training began" in container.text() and list((tmp_path / "runs").iterdir()) == []
