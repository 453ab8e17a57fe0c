"""Weights files (.pth) without torch."""

from __future__ import annotations

import collections
import dataclasses
import io
import json
import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy
from numpy.typing import NDArray

from .arguments import counted

_RECORD = "snake_ddp.json"
# Numbers of bfloat16, which numpy lacks, are read as float32.
_BFLOAT16 = "bfloat16"
_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": _BFLOAT16,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
# The program's reader, src/io/state_dict.cpp, has the same lists and refuses with the same words.
_WRAPPERS = (
    "state_dict", "model_state_dict", "actor_state_dict", "policy_state_dict", "network_state_dict", "net_state_dict", "model",
    "actor", "policy", "network", "net", "module", "weights",
)  # fmt: skip
_FIRST_PARTS = ("prev_dense", "post_dense", "post_norm", "comm_net", "q_net", "norm_0", "norm_1", "gru", "mixer")
_MOST_DEPTH = 32
_VALUE_BYTES = 256
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_VERSION = 1001
_MOST_SHOWN = 100


@dataclasses.dataclass(frozen=True)
class WeightsFile:
    """The contents of a weights file: its tensors, and snake_ddp's record of them as JSON text, empty without one."""

    tensors: dict[str, NDArray[Any]]
    record: str


# The exceptions of zipfile and pickle for damaged input.
_OF_DAMAGE = (
    pickle.UnpicklingError, EOFError, KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError,
    NotImplementedError, RuntimeError, struct.error, zipfile.BadZipFile,
)  # fmt: skip


class _Refused(Exception):
    pass


def _damaged(what: object) -> _Refused:
    return _Refused(f"the file is truncated or damaged ({what}): copy it again or use another one")


def printable(text: str) -> str:
    """The start of a text from a file, safe to print on a terminal."""
    shown = "".join(c if " " <= c <= "~" else "?" for c in text[:_MOST_SHOWN])
    return shown if len(text) <= _MOST_SHOWN else shown + "..."


def _quoted(name: str) -> str:
    return f"'{printable(name)}'"


@dataclasses.dataclass(frozen=True)
class _Type:
    """Of a storage's numbers."""

    dtype: str

    @property
    def itemsize(self) -> int:
        return 2 if self.dtype == _BFLOAT16 else numpy.dtype(self.dtype).itemsize

    def numbers(self, data: bytes) -> NDArray[Any]:
        if self.dtype == _BFLOAT16:
            return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        if self.dtype == "?":  # a byte that is neither 0 nor 1 must not get into a bool
            return numpy.frombuffer(data, "u1") != 0
        return numpy.frombuffer(data, self.dtype)


@dataclasses.dataclass(frozen=True)
class _Storage:
    type: _Type
    key: str
    size: int


@dataclasses.dataclass(frozen=True)
class _Plan:
    """A tensor as the file describes it, unchecked."""

    storage: Any
    offset: Any
    shape: Any
    strides: Any


class _Reader(pickle.Unpickler):
    """Allows what torch.save writes for a dict of tensors, and nothing else."""

    def __init__(self, file: io.BytesIO, storages: dict[str, _Storage]) -> None:
        super().__init__(file)
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _DTYPES:
            return _Type(_DTYPES[name])
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor"): self._tensor,
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
            ("torch._utils", "_rebuild_parameter_with_state"): lambda tensor, *_: tensor,
        }
        try:
            return known[module, name]
        except KeyError:
            raise _Refused(
                f"it holds '{printable(module)}.{printable(name)}', which a weights file does not need; nothing in it was "
                "executed. Save only the weights: torch.save(model.state_dict(), path)"
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], _Type):
            raise _damaged("a persistent object that is not a storage")
        if not isinstance(pid[2], str) or not isinstance(pid[4], int) or pid[4] < 0:
            raise _damaged("a storage without a key or a size")
        if len(pid) > 5 and pid[5] is not None:
            raise _Refused("it was written by a PyTorch before 0.4, with views of storages: load it in Python and save it again")
        return self._storages.setdefault(pid[2], _Storage(pid[1], pid[2], pid[4]))

    @staticmethod
    def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Plan:
        return _Plan(storage, offset, shape, strides)


@dataclasses.dataclass
class _TorchFile:
    root: Any
    bytes_of: Callable[[_Storage], bytes]
    record: str


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise _Refused(
            f"entry {_quoted(name)} is compressed or encrypted, which torch.save never does: save the weights again"
        )
    if info.CRC == 0:  # not computed: torch.serialization.set_crc32_options(False)
        del info.CRC
    try:
        return archive.read(name)
    except zipfile.BadZipFile:
        raise _damaged(f"checksum of entry {_quoted(name)} is wrong") from None


def _read_zip(data: io.BytesIO) -> _TorchFile:
    try:
        archive = zipfile.ZipFile(data)
    except zipfile.BadZipFile:
        raise _damaged("the zip directory is missing") from None
    names = set(archive.namelist())
    folder = next((name[: -len("/data.pkl")] for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1), None)
    if folder is None:
        raise _Refused("it is a zip archive, but torch.save did not write it (no data.pkl)")
    if f"{folder}/constants.pkl" in names:
        raise _Refused("it is a TorchScript archive: save only the weights, torch.save(model.state_dict(), path)")
    if f"{folder}/byteorder" in names and _entry(archive, f"{folder}/byteorder") != b"little":
        raise _Refused("it was written on a big-endian machine: load it in Python and save it again")
    record = _entry(archive, f"{folder}/{_RECORD}").decode() if f"{folder}/{_RECORD}" in names else ""
    storages: dict[str, _Storage] = {}
    root = _Reader(io.BytesIO(_entry(archive, f"{folder}/data.pkl")), storages).load()

    def bytes_of(storage: _Storage) -> bytes:
        if f"{folder}/data/{storage.key}" not in names:
            raise _damaged(f"storage {_quoted(storage.key)} is missing")
        return _entry(archive, f"{folder}/data/{storage.key}")

    return _TorchFile(root, bytes_of, record)


def _read_legacy(data: io.BytesIO) -> _TorchFile:
    """Before PyTorch 1.6: pickles of a magic number, the format's version, machine information, the value and the storages' keys,
    then for each key a count and the bytes."""
    storages: dict[str, _Storage] = {}

    def following() -> Any:
        return _Reader(data, storages).load()

    if following() != _LEGACY_MAGIC:
        raise _Refused("it is a pickle, but torch.save did not write it")
    if following() != _LEGACY_VERSION:
        raise _damaged("unknown version of the format before PyTorch 1.6")
    facts = following()
    if isinstance(facts, dict) and facts.get("little_endian") is False:
        raise _Refused("it was written on a big-endian machine: load it in Python and save it again")
    root, contents = following(), {}
    for key in following():
        storage = storages.get(key)
        if storage is None:
            raise _damaged("unused storage bytes")
        if struct.unpack("<q", data.read(8)) != (storage.size,):
            raise _damaged("a storage of another size")
        contents[key] = data.read(storage.size * storage.type.itemsize)

    def bytes_of(storage: _Storage) -> bytes:
        if storage.key not in contents:
            raise _damaged(f"storage {_quoted(storage.key)} is missing")
        return contents[storage.key]

    return _TorchFile(root, bytes_of, "")


def _read_torch_file(data: bytes) -> _TorchFile:
    if not data:
        raise _Refused("it is empty")
    if data[:2] == b"PK":
        return _read_zip(io.BytesIO(data))
    if data[:1] == b"\x80":
        return _read_legacy(io.BytesIO(data))
    raise _Refused("it is not a file that torch.save wrote")


def _weights_dict(root: Any) -> dict[Any, Any]:
    """The dict with a network's weights, perhaps inside of others."""
    if not isinstance(root, dict):
        raise _Refused("it contains no dict of names and tensors: torch.save(model.state_dict(), path) writes one")
    for _ in range(_MOST_DEPTH + 1):
        wrapped = [name for name, value in root.items() if name in _WRAPPERS and isinstance(value, dict)]
        if not wrapped:
            return root
        if len(wrapped) > 1:
            raise _Refused(f"it has weights under {_quoted(wrapped[0])} and {_quoted(wrapped[1])}: save one of them")
        root = root[wrapped[0]]
    raise _Refused(f"{_quoted(wrapped[0])} is nested too deeply")


class _Tensors:
    """Makes tensors of plans, within the memory that the file's size justifies."""

    def __init__(self, file: _TorchFile, size: int) -> None:
        self._file, self._left = file, 4 * size + (16 << 20)
        self._whole: dict[str, NDArray[Any]] = {}

    def spend(self, count: int) -> None:
        if count > self._left:
            raise _damaged("it describes far more than its size can hold")
        self._left -= count

    def of(self, plan: _Plan) -> NDArray[Any]:
        storage, offset, shape, strides = plan.storage, plan.offset, plan.shape, plan.strides
        if not isinstance(storage, _Storage) or not isinstance(shape, (tuple, list)) or not isinstance(strides, (tuple, list)):
            raise _damaged("a tensor without storage, shape or strides")
        if len(shape) != len(strides):
            raise _damaged("a tensor whose numbers of strides and sizes differ")
        if any(not isinstance(n, int) or n < 0 for n in (offset, *shape, *strides)):
            raise _damaged("a tensor of negative size")
        whole = self._numbers(storage)
        count = 1
        for length in shape:
            count *= length
        if count and offset + sum((n - 1) * stride for n, stride in zip(shape, strides)) >= storage.size:
            raise _damaged("a tensor reaches outside its storage")
        self.spend(count * storage.type.itemsize)
        if not count:
            return numpy.empty(shape, whole.dtype)
        bytes_apart = tuple(stride * whole.itemsize for stride in strides)
        view = numpy.lib.stride_tricks.as_strided(whole[offset:], shape, bytes_apart, writeable=False)
        return numpy.ascontiguousarray(view).reshape(shape)

    def _numbers(self, storage: _Storage) -> NDArray[Any]:
        if storage.key not in self._whole:
            data = self._file.bytes_of(storage)
            if len(data) != storage.size * storage.type.itemsize:
                raise _damaged(f"storage {_quoted(storage.key)} has the wrong size")
            self._whole[storage.key] = storage.type.numbers(data)
        return self._whole[storage.key]


def _tensors_of(found: dict[Any, Any], make: _Tensors) -> dict[str, NDArray[Any]]:
    tensors = {}
    for name, value in found.items():
        if not isinstance(name, str):
            raise _Refused("a name in it is not text: save only the weights")
        make.spend(_VALUE_BYTES + len(name))
        if isinstance(value, dict):
            raise _Refused(f"{_quoted(name)} is a dict: weights may be in the file's own dict, or under {', '.join(_WRAPPERS)}")
        if not isinstance(value, _Plan):
            raise _Refused(f"{_quoted(name)} is not a tensor: save only the weights, torch.save(model.state_dict(), path)")
        tensors[name] = make.of(value)
    if not tensors:
        raise _Refused("its dict is empty: it holds no weights")
    return tensors


def _owner_of(name: str) -> str | None:
    """What is in front of the first part that names of networks begin with; None if the name has no such part."""
    parts = name.split(".")
    found = next((k for k, part in enumerate(parts) if part in _FIRST_PARTS), None)
    return None if found is None else "".join(f"{part}." for part in parts[:found])


def _owner(tensors: dict[str, NDArray[Any]]) -> str:
    """The prefix that all names have, such as "module." of DistributedDataParallel."""
    first = next((name for name in tensors if _owner_of(name) is not None), None)
    if first is None:
        return ""
    owner = _owner_of(first) or ""
    for name in tensors:
        if _owner_of(name) not in (None, owner) or not name.startswith(owner):
            raise _Refused(
                f"it holds more than one network, with names such as {_quoted(first)} and {_quoted(name)}: save one of them"
            )
    return owner


def _check_names(tensors: dict[str, NDArray[Any]]) -> None:
    if all(_owner_of(name) is None for name in tensors):
        names = ", ".join(_quoted(name) for name in list(tensors)[:3])
        raise _Refused(
            "it is not an actor or critic of this program, with names such as prev_dense.0.weight or q_net.0.weight; its names are "
            f"{names}{', ...' if len(tensors) > 3 else ''}"
        )


def _check_types(tensors: dict[str, NDArray[Any]]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f":
            raise _Refused(f"tensor {_quoted(name)} has the type {tensor.dtype}, not a floating-point one")


def check_finite(tensors: dict[str, NDArray[Any]]) -> None:
    """Throws  ValueError that names the first tensor with numbers that are not finite as float32."""
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f":
            continue
        with numpy.errstate(over="ignore"):
            finite = int(numpy.isfinite(tensor.astype(numpy.float32)).sum())
        if finite != tensor.size:
            raise ValueError(
                f"tensor {_quoted(name)} has {tensor.size - finite} of {counted(tensor.size, 'number')} not finite as float32: a "
                "training that diverged leaves such weights; use earlier ones"
            )


def _name_shown(name: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name[:_MOST_SHOWN])


def matrix(tensors: dict[str, NDArray[Any]], name: str, path: str) -> NDArray[Any]:
    """The first layer of a network, or another whose shape says how large it is.

    Throws  ValueError, as the program.
    """
    found = tensors.get(name)
    if found is None or found.ndim != 2 or found.size == 0:
        raise ValueError(f'{path} has no matrix "{name}": it is a different kind of network')
    return found


def check_fit(tensors: dict[str, NDArray[Any]], shapes: dict[str, tuple[int, ...]], path: str) -> None:
    """Throws  ValueError, as the program, if they are not the tensors of a network with these shapes."""
    for name, shape in shapes.items():
        if name not in tensors:
            raise ValueError(f'{path} has no tensor "{name}": it belongs to another network or algorithm')
        if tensors[name].shape != shape:
            raise ValueError(f'{path}: "{name}" has shape {list(tensors[name].shape)}, this network needs {list(shape)}')
    for name in tensors:
        if name not in shapes:
            raise ValueError(f'{path} has a tensor "{_name_shown(name)}" that this network lacks')


def add_record(file: io.BytesIO, record: dict[str, Any]) -> None:
    """Adds snake_ddp's record to a file of torch.save that has none."""
    with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
        folder = archive.namelist()[0].split("/")[0]
        archive.writestr(f"{folder}/{_RECORD}", json.dumps(record))


def read_file(path: str | os.PathLike[str], *, network: bool = True) -> WeightsFile:
    """Reads a file of torch.save: a dict of tensors, perhaps under "state_dict", "model" or the like (docs/reference/formats.md). A prefix that
    all names have, such as "module.", is left out with a warning. With `network` it must hold one of the program's networks.

    Throws  OSError if it cannot be read, ValueError if it is something else or damaged, or has numbers that are not finite.
    """
    name = os.fspath(path)
    with open(name, "rb") as opened:
        data = opened.read()
    try:
        file = _read_torch_file(data)
        tensors = _tensors_of(_weights_dict(file.root), _Tensors(file, len(data)))
        owner = _owner(tensors) if network else ""
        tensors = {name.removeprefix(owner): tensor for name, tensor in tensors.items()}
        if network:
            _check_names(tensors)
            _check_types(tensors)
    except _Refused as e:
        raise ValueError(f"{name}: {e}") from None
    except _OF_DAMAGE as e:
        raise ValueError(f"{name}: {_damaged(printable(str(e)))}") from e
    try:
        check_finite(tensors)
    except ValueError as e:
        raise ValueError(f"{name}: {e}") from None
    if owner:
        warnings.warn(f"{name}: all names begin with {_quoted(owner)}, which is left out", stacklevel=3)
    return WeightsFile(tensors, file.record)


def read_weights(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The tensors of a weights file (.pth), by name, without torch. Those of bfloat16 are float32.

    Throws  OSError if the file cannot be read, ValueError if it is not a dict of tensors, damaged, or has numbers that are not finite.
            Nothing in it is executed.
    """
    return read_file(path, network=False).tensors
