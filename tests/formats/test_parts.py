"""Folders of many files: read like one file."""

import polars as pl
import pytest

import doxa
from doxa.errors import BadFile
from doxa.formats import dataset, reading
from doxa.formats.parts import read_parts
from doxa.formats.reading import blocks, read_beliefs

ROWS = [(f"e{i % 7}", f"r{i % 3}", f"e{(i * i) % 11}") for i in range(30)]


def parts_in(folder, endings):
    folder.mkdir(parents=True)
    table = pl.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row")
    for number, ending in enumerate(endings):
        part = table[number * 10 : number * 10 + 10]
        path = folder / f"part-{number:05d}{ending}"
        part.write_parquet(path) if ending == ".parquet" else part.write_csv(path, separator="\t")
    (folder / "_SUCCESS").touch()
    (folder / ".part-00000.crc").write_text("x")


@pytest.mark.parametrize("endings", [(".tsv", ".tsv", ".tsv"), (".parquet", ".tsv", ".parquet")])
def test_a_folder_of_parts_is_one_list_of_beliefs(tmp_path, endings):
    parts_in(tmp_path / "train", endings)
    parts = dataset(tmp_path)
    assert parts.train == tmp_path / "train"
    assert parts.valid is None
    beliefs = read_beliefs(parts.train)
    assert beliefs.to_frame().rows() == ROWS
    assert len(beliefs.vocabularies.relations) == 3


@pytest.mark.parametrize("processes", [1, 2])
def test_parts_read_by_processes_are_those_read_one_by_one(tmp_path, processes):
    """Ids differ, names do not; mentions, confidence and labels stay with their beliefs."""
    table = pl.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row").with_columns(
        pl.Series("mention", [f"Word{i % 4} and word{i % 5}" if i % 3 else None for i in range(30)]),
        pl.Series("confidence", [i / 30 + 0.01 for i in range(30)]),
    )
    files = []
    for number in range(3):
        files.append(tmp_path / f"part-{number}.parquet")
        table[number * 10 : number * 10 + 10].write_parquet(files[-1])
    parts, plain = read_parts(files, one_file, processes), read_beliefs(tmp_path)
    assert parts.to_frame().equals(plain.to_frame())
    assert parts.mention.offsets.tolist() == plain.mention.offsets.tolist()
    assert sorted(parts.vocabularies.entities.names) == sorted(plain.vocabularies.entities.names)
    assert sorted(parts.vocabularies.words.names) == sorted(plain.vocabularies.words.names)


def one_file(path):
    return blocks(path)


def test_a_folder_without_parts_is_no_part(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "_SUCCESS").touch()
    with pytest.raises(BadFile, match="holds no train file"):
        dataset(tmp_path)


def test_faults_name_the_file_of_the_part(tmp_path):
    parts_in(tmp_path / "train", (".tsv", ".tsv"))
    with (tmp_path / "train" / "part-00001.tsv").open("a") as file:
        file.write("only one field\n")
    with pytest.raises(BadFile, match=r"part-00001\.tsv, line 12"):
        read_beliefs(tmp_path / "train")


def test_a_large_folder_is_read_by_several_processes(tmp_path, monkeypatch):
    """The reader of commands and of `doxa.read` comes to the one of parts."""
    for number in range(2):
        (tmp_path / f"{number}.tsv").write_text(f"a{number}\tr\tb\n")
    monkeypatch.setattr(reading, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(reading, "read_parts", lambda files, one: doxa.read(files[0]))
    assert doxa.read(tmp_path).to_frame()["head"].to_list() == ["a0"]
