"""Weights files (.pth) without torch."""

from __future__ import annotations

import collections
import dataclasses
import io
import json
import os
import pickle
import struct
import zipfile
from typing import Any

import numpy
from numpy.typing import NDArray

_RECORD = "snake_ddp.json"
_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


@dataclasses.dataclass(frozen=True)
class WeightsFile:
    """The contents of a weights file: its tensors, and snake_ddp's record of them as JSON text, empty without one."""

    tensors: dict[str, NDArray[Any]]
    record: str


# The exceptions of zipfile and pickle for damaged input.
_OF_DAMAGE = (
    pickle.UnpicklingError, EOFError, KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError,
    NotImplementedError, RuntimeError, struct.error,
)  # fmt: skip


class _Refused(Exception):
    pass


class _Reader(pickle.Unpickler):
    """Allows what torch.save writes for a dict of tensors, and nothing else."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}/data.pkl")))
        self._archive, self._folder = archive, folder
        self._storages: dict[str, NDArray[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _DTYPES:
            return numpy.dtype(_DTYPES[name])
        known = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor"): self._tensor,
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        try:
            return known[module, name]
        except KeyError:
            raise _Refused(
                f"it holds {module}.{name}, which a weights file does not need; nothing in it was executed. Save only the "
                "weights: torch.save(model.state_dict(), path)"
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) < 3 or pid[0] != "storage" or not isinstance(pid[1], numpy.dtype):
            raise _Refused(f"unknown reference {pid!r}")
        key = str(pid[2])
        if key not in self._storages:
            data = self._archive.read(f"{self._folder}/data/{key}")
            self._storages[key] = numpy.frombuffer(data, pid[1])
        return self._storages[key]

    @staticmethod
    def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> NDArray[Any]:
        if not isinstance(storage, numpy.ndarray) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
            raise _Refused("a tensor without storage, shape or strides")
        numbers = (offset, *shape, *strides)
        if len(shape) != len(strides) or any(not isinstance(n, int) or n < 0 for n in numbers):
            raise _Refused(f"a tensor of shape {shape} with strides {strides} from element {offset}")
        last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides))
        if 0 not in shape and last >= storage.size:
            raise _Refused(f"a tensor of shape {shape} behind the end of its storage")
        if 0 in shape:
            return numpy.empty(shape, storage.dtype)
        bytes_apart = tuple(stride * storage.itemsize for stride in strides)
        view = numpy.lib.stride_tricks.as_strided(storage[offset:], shape, bytes_apart, writeable=False)
        return numpy.ascontiguousarray(view).reshape(shape)


def add_record(file: io.BytesIO, record: dict[str, Any]) -> None:
    """Adds snake_ddp's record to a file of torch.save that has none."""
    with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
        folder = archive.namelist()[0].split("/")[0]
        archive.writestr(f"{folder}/{_RECORD}", json.dumps(record))


def _read(archive: zipfile.ZipFile) -> WeightsFile:
    for entry in archive.infolist():
        if entry.compress_type != zipfile.ZIP_STORED:
            raise _Refused(f"entry {entry.filename} is compressed, which torch.save never does: save the weights again")
        if entry.CRC == 0:  # not computed: torch.serialization.set_crc32_options(False)
            del entry.CRC
    folders = [name[: -len("/data.pkl")] for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(folders) != 1:
        raise _Refused("it is not a file of torch.save")
    orders = [name for name in archive.namelist() if name == f"{folders[0]}/byteorder"]
    if orders and archive.read(orders[0]) != b"little":
        raise _Refused("its numbers are big-endian")
    tensors = _Reader(archive, folders[0]).load()
    if isinstance(tensors, dict) and isinstance(tensors.get("state_dict"), dict):
        tensors = tensors["state_dict"]
    if not isinstance(tensors, dict) or not tensors:
        raise _Refused("it is not a dict of tensors")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, numpy.ndarray):
            raise _Refused(f"{name!r} is not a tensor")
    record = f"{folders[0]}/{_RECORD}"
    text = archive.read(record).decode() if record in archive.namelist() else ""
    return WeightsFile(dict(tensors), text)


def read_file(path: str | os.PathLike[str]) -> WeightsFile:
    """Reads a file of torch.save: a dict of tensors.

    Throws  OSError if it cannot be read, ValueError if it is something else or damaged.
    """
    name = os.fspath(path)
    with open(name, "rb") as file:
        data = io.BytesIO(file.read())
    try:
        with zipfile.ZipFile(data) as archive:
            return _read(archive)
    except _Refused as e:
        raise ValueError(f"{name}: {e}") from None
    except zipfile.BadZipFile:
        raise ValueError(
            f"{name}: it is not a file of torch.save, or it is damaged; very old ones are not zip archives: load and save it "
            "again with torch"
        ) from None
    except _OF_DAMAGE as e:
        raise ValueError(f"{name}: it is damaged: {e}") from e


def read_weights(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The tensors of a weights file (.pth), by name, without torch.

    Throws  OSError if the file cannot be read, ValueError if it is not a dict of tensors, or damaged. Nothing in it is executed.
    """
    return read_file(path).tensors
