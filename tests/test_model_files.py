"""Model files: damage is noticed before native code reads them, sizes and numbers are bounded."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest

from absa.backends import open_backend
from absa.backends.offline import OfflineBackend
from absa.cli import run as absa
from absa.config import load_settings
from absa.nodes.assets import data_dir
from absa.offline.models import folder
from absa.offline.models.folder import MANIFEST, ModelFolder, record
from absa.offline.models.loading import Models
from absa.schemas.errors import InputError

SHIPPED = data_dir("resources") / "models"
OF_ENGLISH = ("decision_en.json", "network_en.npz", "polarity_en.npz", "tagger_en.crf")

Damage = Callable[[bytes], bytes]


def cut(share: float) -> Damage:
    return lambda content: content[: int(share * len(content))]


def flipped(share: float) -> Damage:
    def flip(content: bytes) -> bytes:
        place = int(share * len(content))
        return content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]

    return flip


DAMAGES: dict[str, Damage] = {
    **{f"cut at {share}": cut(share) for share in (0.0, 0.0001, 0.01, 0.3, 0.5, 0.9, 0.9999)},
    **{f"flipped at {share}": flipped(share) for share in (0.0, 0.00001, 0.2, 0.5, 0.8, 0.9999)},
    "garbage": lambda content: os.urandom(len(content)),
    "zeros": lambda content: bytes(len(content)),
    "longer": lambda content: content + b"\0",
    "begins like one": lambda content: content[:48] + os.urandom(len(content) - 48),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder of English alone."""
    made = tmp_path / "model"
    made.mkdir()
    for name in OF_ENGLISH:
        shutil.copyfile(SHIPPED / name, made / name)
    record(made, OF_ENGLISH)
    return made


@pytest.fixture
def no_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the files under test: what CRFsuite is handed is exactly what is shipped."""
    whole = (SHIPPED / "tagger_en.crf").read_bytes()
    opened = pycrfsuite.Tagger.open_inmemory

    class Careful(pycrfsuite.Tagger):
        def open_inmemory(self, content: bytes) -> object:
            assert content == whole
            return opened(self, content)

    monkeypatch.setattr(pycrfsuite, "Tagger", Careful)


def changed(path: Path, damage: Damage) -> None:
    path.write_bytes(damage(path.read_bytes()))


def test_the_shipped_manifest_is_that_of_the_shipped_files(tmp_path: Path) -> None:
    names = {path.name for path in SHIPPED.iterdir()} - {"README.md", MANIFEST}
    for name in names:
        shutil.copyfile(SHIPPED / name, tmp_path / name)
    record(tmp_path, names)
    assert (tmp_path / MANIFEST).read_text() == (SHIPPED / MANIFEST).read_text()


@pytest.mark.usefixtures("no_native_code")
def test_a_whole_model_is_loaded(model: Path) -> None:
    assert Models(model).of("en").tagger is not None


@pytest.mark.usefixtures("no_native_code")
@pytest.mark.parametrize("name", OF_ENGLISH)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused_by_name_before_native_code_reads_it(
    name: str, damage: str, model: Path
) -> None:
    changed(model / name, DAMAGES[damage])
    with pytest.raises(InputError, match=rf"backend\.model: .*{name} is damaged.*absa train"):
        OfflineBackend(str(model))


@pytest.mark.parametrize("name", OF_ENGLISH[1:])
def test_a_missing_file_is_named(name: str, model: Path) -> None:
    (model / name).unlink()
    with pytest.raises(InputError, match=f"incomplete model: {name} cannot be read"):
        OfflineBackend(str(model))


def test_a_folder_without_a_manifest_is_refused_unless_it_is_trusted(model: Path) -> None:
    (model / MANIFEST).unlink()
    with pytest.raises(InputError, match=r"has no manifest\.json.*backend\.trust_model"):
        OfflineBackend(str(model))
    chosen = {"backend.model": str(model), "backend.trust_model": True}
    open_backend(load_settings(None, chosen).backend)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"tagger_en.crf": 1}', "[" * 10_000])
def test_a_damaged_manifest_is_refused(content: str, model: Path) -> None:
    (model / MANIFEST).write_text(content)
    with pytest.raises(InputError, match=r"manifest\.json is damaged"):
        OfflineBackend(str(model))


def test_a_file_that_the_manifest_does_not_name_is_refused(model: Path) -> None:
    entries = json.loads((model / MANIFEST).read_text())
    del entries["network_en.npz"]
    (model / MANIFEST).write_text(json.dumps(entries))
    with pytest.raises(InputError, match=r"network_en\.npz is not in .*manifest\.json"):
        OfflineBackend(str(model))


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name.startswith("cut")] + ["zeros"])
def test_a_trusted_tagger_that_is_cut_off_is_still_refused(damage: str, model: Path) -> None:
    changed(model / "tagger_en.crf", DAMAGES[damage])
    with pytest.raises(InputError, match=r"tagger_en\.crf is not an aspect tagger"):
        OfflineBackend(str(model), trust_model=True)


@pytest.mark.parametrize("name", ["network_en.npz", "polarity_en.npz"])
@pytest.mark.parametrize(
    "damage",
    [*(name for name in DAMAGES if name.startswith("cut")), "flipped at 0.5", "garbage", "zeros"],
)
def test_trusted_arrays_that_are_damaged_are_still_refused(
    name: str, damage: str, model: Path
) -> None:
    changed(model / name, DAMAGES[damage])
    with pytest.raises(InputError, match=f"{name} is not a"):
        OfflineBackend(str(model), trust_model=True)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("weights", "[NaN]", r"weights\.0: Input should be a finite number"),
        ("accept", "NaN", "accept: Input should be a finite number"),
        ("reserve", "-Infinity", "reserve: Input should be a finite number"),
        ("mentioned", "1e999", "mentioned: Input should be a finite number"),
        ("weights", "[0.5]", "weights has 1 numbers, not 20"),
        ("weights", '["a"]', r"weights\.0: Input should be a valid number"),
        ("domains", "7", "domains: Input should be a valid"),
    ],
)
def test_numbers_of_a_decision_are_finite(
    key: str, value: str, complaint: str, model: Path
) -> None:
    path = model / "decision_en.json"
    content = {name: json.dumps(of) for name, of in json.loads(path.read_text()).items()}
    content[key] = value
    path.write_text("{" + ",".join(f'"{name}": {of}' for name, of in content.items()) + "}")
    record(model, [path.name])
    for trusted in (False, True):
        with pytest.raises(InputError, match=rf"decision_en\.json is not .*: {complaint}"):
            OfflineBackend(str(model), trust_model=trusted)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("network_en.npz", "rows"),
        ("network_en.npz", "layer1"),
        ("polarity_en.npz", "aspect_weights"),
        ("polarity_en.npz", "net_gates"),
    ],
)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_of_arrays_are_finite(name: str, key: str, number: float, model: Path) -> None:
    with np.load(model / name) as data:
        content = dict(data)
    content[key].flat[-1] = number
    np.savez_compressed(model / name, **content)
    record(model, [name])
    for trusted in (False, True):
        with pytest.raises(InputError, match=f"{name} is not .*: {key} has a number"):
            OfflineBackend(str(model), trust_model=trusted)


def bomb(method: int, size: int) -> bytes:
    """A small archive with an array of zeros that is `size` bytes large."""
    made = io.BytesIO()
    header = io.BytesIO()
    shape = {"descr": "|u1", "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(header, shape)
    with (
        zipfile.ZipFile(made, "w", method) as archive,
        archive.open("rows.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(size // 2**20):
            member.write(bytes(2**20))
    return made.getvalue()


@pytest.mark.parametrize("name", ["network_en.npz", "polarity_en.npz"])
@pytest.mark.parametrize(
    ("method", "complaint"),
    [(zipfile.ZIP_DEFLATED, "unpacks to"), (zipfile.ZIP_BZIP2, "unknown method")],
)
def test_a_small_file_that_unpacks_to_gigabytes_is_refused(
    name: str, method: int, complaint: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MAX_UNPACKED_BYTES", 2**23)
    (model / name).write_bytes(bomb(method, 2**24))
    record(model, [name])
    unpack = np.load

    def unpack_what_is_large(file: io.BytesIO, *, allow_pickle: bool) -> object:
        assert file.getbuffer().nbytes > 1_000_000, "the bomb is unpacked"
        return unpack(file, allow_pickle=allow_pickle)

    monkeypatch.setattr(np, "load", unpack_what_is_large)
    for trusted in (False, True):
        with pytest.raises(InputError, match=f"{name} is not .*{complaint}"):
            OfflineBackend(str(model), trust_model=trusted)


def test_the_directory_of_an_archive_cannot_understate_what_it_unpacks_to(model: Path) -> None:
    content = bytearray(bomb(zipfile.ZIP_DEFLATED, 2**24))
    real = (2**24 + 128).to_bytes(4, "little")
    assert real in content
    for place in [n for n in range(len(content)) if content[n : n + 4] == real]:
        content[place : place + 4] = (4096).to_bytes(4, "little")
    (model / "network_en.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"network_en\.npz is not a network"):
        OfflineBackend(str(model), trust_model=True)


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("name", OF_ENGLISH)
def test_a_file_larger_than_any_model_is_not_read(name: str, trusted: bool, model: Path) -> None:
    os.truncate(model / name, folder.MAX_FILE_BYTES + 1)  # takes no room on the disk
    with pytest.raises(InputError, match=rf"{name} has 536,870,913 bytes"):
        OfflineBackend(str(model), trust_model=trusted)


@pytest.mark.parametrize("trusted", [False, True])
def test_what_is_not_a_file_is_not_opened(trusted: bool, model: Path) -> None:
    (model / "tagger_en.crf").unlink()
    os.mkfifo(model / "tagger_en.crf")
    with pytest.raises(InputError, match=r"tagger_en\.crf is not a regular file"):
        OfflineBackend(str(model), trust_model=trusted)


@pytest.fixture
def shipped_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    copy = tmp_path / "shipped"
    shutil.copytree(SHIPPED, copy)
    monkeypatch.setattr(folder, "shipped", lambda: ModelFolder(copy, remedy="install it again"))
    monkeypatch.setattr("absa.offline.models.loading.shipped", folder.shipped)
    yield copy


def test_a_damaged_shipped_model_is_one_message(
    shipped_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(shipped_copy / "tagger_en.crf", flipped(0.5))
    assert absa(["analyze", "The room was big.", "--json"]) == 2
    err = capsys.readouterr().err
    assert "tagger_en.crf is damaged" in err
    assert "install it again" in err
    assert "Traceback" not in err


def test_doctor_names_a_damaged_model_of_any_language(
    shipped_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(shipped_copy / "words_en.json.gz", flipped(0.5))
    assert absa(["doctor", "--json"]) == 1
    backend = json.loads(capsys.readouterr().out)["backend"]
    assert not backend["answers"]
    assert "words_en.json.gz is damaged" in backend["reason"]


def test_training_again_enters_the_new_files_and_keeps_the_others(model: Path) -> None:
    before = json.loads((model / MANIFEST).read_text())
    changed(model / "decision_en.json", lambda content: content + b"\n")
    changed(model / "tagger_en.crf", flipped(0.5))
    record(model, ["decision_en.json"])
    after = json.loads((model / MANIFEST).read_text())
    assert after.pop("decision_en.json") != before.pop("decision_en.json")
    # The damage to a file that was not written is still noticed.
    assert after == before
