"""Raw files: found, checked, and put in place.

Seen to fail when: the checksum is not compared; the package is looked at before the mirror; the target is written before
the check; a wrong file ends the search; the message leaves out a checksum; a gzip copy is compared packed; a first use is
not recorded, or a namesake of it is taken; the publisher is asked before the package; a list has one name twice; the archive
is fetched again for each member.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from mirror import MIRROR, needs

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import sha256_of
from pretrieve.raw import sources as sources_module
from pretrieve.raw.checksums import Checksum, Digests, digests_of
from pretrieve.raw.mirror import check_mirror, mirror_folder
from pretrieve.raw.sources import Source, fetch, read_sources, recorded

ROOT = Path(__file__).parents[2]
LIST = ROOT / "resources/sources.tsv"

GOOD = b"the right content\n"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    package = tmp_path / "site" / "pretrieve_test_data"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "raw.bin").write_bytes(GOOD)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, "pretrieve_test_data", raising=False)
    digest = hashlib.sha256(GOOD).hexdigest()
    return Source("raw", "file.bin", "pretrieve_test_data", "raw.bin", digest, len(GOOD), "CC0", "tests")


def mirror_with(tmp_path: Path, content: bytes, folder: str = "") -> Path:
    mirror = tmp_path / "mirror"
    (mirror / folder).mkdir(parents=True)
    (mirror / folder / "file.bin").write_bytes(content)
    return mirror


def test_right_file_from_the_package(tmp_path: Path, source: Source) -> None:
    target = tmp_path / "data" / "sources" / "file.bin"
    assert fetch(source, target).endswith("pretrieve_test_data/raw.bin")
    assert target.read_bytes() == GOOD and sha256_of(target) == source.expected.digest
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("folder", ["", "deep/down"])
def test_mirror_comes_first(tmp_path: Path, source: Source, folder: str) -> None:
    mirror = mirror_with(tmp_path, GOOD, folder)
    assert fetch(source, tmp_path / "t", mirror) == str(mirror / folder / "file.bin")


def test_a_wrong_mirror_is_passed_over(tmp_path: Path, source: Source) -> None:
    mirror = mirror_with(tmp_path, b"wrong")
    assert "pretrieve_test_data" in fetch(source, tmp_path / "t", mirror)
    assert (tmp_path / "t").read_bytes() == GOOD


def test_a_mirror_that_cannot_be_read_is_passed_over(tmp_path: Path, source: Source) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/file.bin").symlink_to(
        "/proc/self/mem"
    )  # its first byte is an input/output error, also for root
    assert "pretrieve_test_data" in fetch(source, tmp_path / "t", tmp_path / "mirror")
    with pytest.raises(DataError, match=r"mirror/file\.bin cannot be read: Input/output error; expected .*by hand"):
        fetch(replace(source, package="no_such_package_here"), tmp_path / "t", tmp_path / "mirror")
    assert (tmp_path / "t").read_bytes() == GOOD


def test_a_damaged_file_is_named_and_replaces_nothing(tmp_path: Path, source: Source) -> None:
    mirror = mirror_with(tmp_path, b"damaged")
    target = tmp_path / "t"
    target.write_bytes(GOOD)
    with pytest.raises(DataError) as error:
        fetch(replace(source, package="no_such_package_here"), target, mirror)
    message = str(error.value)
    for part in (
        source.expected.digest,
        hashlib.sha256(b"damaged").hexdigest(),
        "file.bin",
        "--config mirror=",
        str(mirror),
    ):
        assert part in message
    assert target.read_bytes() == GOOD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mirror", "site", "t"]


def test_missing(tmp_path: Path, source: Source) -> None:
    with pytest.raises(DataError, match="missing") as error:
        fetch(replace(source, package="no_such_package_here"), tmp_path / "t", tmp_path / "no-folder")
    for part in (source.expected.digest, "file.bin", "--config mirror=", "no_such_package_here", "no-folder"):
        assert part in str(error.value)


def test_the_list(tmp_path: Path) -> None:
    sources = read_sources(LIST)
    assert {"enwiki-fragment", "encyclopaedia-leads", "fanoutqa-dev"} <= set(sources)
    for source in sources.values():
        assert source.licence and source.file and bool(source.archive) + bool(source.url) + bool(source.package) <= 1
        assert bool(source.path) == bool(source.archive or source.package), source
        assert source.url.startswith(("https://", "http://")) or not source.url
        if not (source.archive or source.url or source.package):  # of a mirror alone: known to the byte
            assert source.expected.algorithm == "sha256" and source.bytes, source
        if source.archive:
            assert not sources[source.archive].archive and sources[source.archive].url
        for word in source.needed_by.split():
            assert "/" not in word or list((LIST.parents[1] / "references").glob(f"{word}.csv")), source
    for name in ("enwiki-fragment", "encyclopaedia-leads", "fanoutqa-dev"):
        assert len(sources[name].expected.digest) == 64 and sources[name].bytes > 0


def test_a_list_of_the_least_columns(tmp_path: Path) -> None:
    table = tmp_path / "sources.tsv"
    columns = "name\tfile\tpackage\tpath\tchecksum\tbytes\tlicence\tneeded_by\n"
    table.write_text("# comment\n" + columns + f"a\tf\tp\tq\t{'0' * 64}\t12\tCC0\tall\n")
    assert read_sources(table) == {"a": Source("a", "f", "p", "q", "0" * 64, 12, "CC0", "all")}
    for line in (
        "a\tf\tp\tq\t00\tmany\tCC0\tall",
        "a\tf\tp\tq\t00\t12\tCC0",
        "a\tf",
        "a\tf\tp\tq\t00\t1\tCC0\tall\tmore",
        "a\tf\tp\tq\t00\t1\tCC0\tall",
        f"a\tf\tp\tq\tsha1:{'0' * 40}\t1\tCC0\tall",
    ):
        table.write_text("# comment\n" + columns + line + "\n")
        with pytest.raises(DataError, match=r"sources\.tsv: source 1 \('a'\) is not complete: .*line 3"):
            read_sources(table)


LEAST = "name\tfile\tpackage\tpath\tchecksum\tbytes\tlicence\tneeded_by\n"
ROW = f"a\tf\tp\tq\t{'0' * 64}\t12\tCC0\tall\n"


@pytest.mark.parametrize("begin", ["# comment\n", "", "\n\n#\n"])
def test_a_list_behind_a_byte_order_mark(tmp_path: Path, begin: str) -> None:
    table = tmp_path / "sources.tsv"
    table.write_text("\ufeff" + begin + LEAST + ROW)
    assert list(read_sources(table)) == ["a"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (LEAST + ROW.replace("12", "many"), "line 2|column 'bytes': 'many', expected a whole number"),
        (LEAST + ROW.replace("12", "-1"), "line 2|column 'bytes': '-1', expected a whole number"),
        (LEAST + "\n" + ROW.replace("12", "1" * 5_000), "line 3|column 'bytes': '1111|expected a whole number"),
        (LEAST + ROW.replace("\tall", ""), "line 2|7 fields, expected 8 separated by tabs"),
        (LEAST.replace("licence", "license") + ROW, "line 1|column 'license' is unknown; did you mean 'licence'?"),
        (LEAST.replace("path", "file") + ROW, "line 1|column 'file' stands twice"),
        (LEAST.replace("\tbytes", "") + ROW, "line 1|no column 'bytes'; expected a header, separated by tabs"),
        (LEAST.replace("\tchecksum", "") + ROW, "line 1|no column 'checksum'"),
        (
            LEAST.replace("\t", ",") + ROW,
            "line 1|column 'name,file,package,path,checksum,bytes,licence,needed_by' is unknown",
        ),
        ("# comment\n", "no column 'name', 'file'"),
    ],
)
def test_a_list_that_is_none(tmp_path: Path, content: str, words: str) -> None:
    table = tmp_path / "sources.tsv"
    table.write_text(content)
    with pytest.raises(DataError) as caught:
        read_sources(table)
    assert str(caught.value).startswith(f"{table}: ") and all(word in str(caught.value) for word in words.split("|"))


def test_a_list_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Is a directory; expected the list of raw files"):
        read_sources(tmp_path)
    table = tmp_path / "sources.tsv"
    table.write_bytes(b"name\tf\xff\n")
    with pytest.raises(DataError, match=r"sources\.tsv: not UTF-8"):
        read_sources(table)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("a\tother", "its name is that of 'a' too"),
        ("b\tf", "its file 'f' is that of 'a' too"),
        ("b\t../f", "would leave its folder"),
        ("b\t/etc/f", "would leave its folder"),
    ],
)
def test_two_sources_with_one_name(tmp_path: Path, second: str, words: str) -> None:
    table = tmp_path / "sources.tsv"
    rest = "\t\t\t" + "0" * 64 + "\t1\tCC0\tall\n"
    table.write_text(
        "name\tfile\tpackage\tpath\tchecksum\tbytes\tlicence\tneeded_by\na\tf" + rest + "#\n" + second + rest
    )
    with pytest.raises(DataError) as caught:
        read_sources(table)
    assert words in str(caught.value) and "line 4" in str(caught.value)


def test_a_gzip_copy_will_do(tmp_path: Path, source: Source) -> None:
    """Also one that is another gzip file than anybody else's: what counts is its content."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "file.bin.gz").write_bytes(gzip.compress(GOOD, 1, mtime=5))
    assert fetch(source, tmp_path / "t", mirror) == str(mirror / "file.bin.gz")
    assert (tmp_path / "t").read_bytes() == GOOD
    alone = replace(source, package="")
    (mirror / "file.bin.gz").write_bytes(gzip.compress(b"other"))
    with pytest.raises(DataError, match=rf"has unpacked, sha256 {hashlib.sha256(b'other').hexdigest()} \(5 bytes\)"):
        fetch(alone, tmp_path / "t", mirror)
    (mirror / "file.bin.gz").write_bytes(gzip.compress(GOOD)[:-4])
    with pytest.raises(DataError, match="not a whole gzip file"):
        fetch(alone, tmp_path / "t", mirror)
    assert (tmp_path / "t").read_bytes() == GOOD and sorted(path.name for path in tmp_path.iterdir()) == [
        "mirror",
        "site",
        "t",
    ]


def test_a_common_name_is_told_by_its_content(tmp_path: Path, source: Source) -> None:
    """``corpus.jsonl`` is in many folders of a mirror."""
    mirror = mirror_with(tmp_path, b"x" * len(GOOD), "other")
    (mirror / "right").mkdir()
    (mirror / "right/file.bin").write_bytes(GOOD)
    named = replace(source, file="set/file.bin", package="")
    assert fetch(named, tmp_path / "set/file.bin", mirror) == str(mirror / "right/file.bin")


def test_first_use_is_recorded_and_checked_ever_after(tmp_path: Path, source: Source) -> None:
    mirror = mirror_with(tmp_path, b"first", "set")
    unknown = replace(source, file="set/file.bin", package="", checksum="first-use", bytes=0)
    target, records = tmp_path / "data/set/file.bin", tmp_path / "data/checksums.tsv"
    assert recorded(unknown, records) == Checksum("", "")
    fetch(unknown, target, mirror, records=records)
    assert records.read_text().split("\n")[1].split("\t")[:3] == ["raw", hashlib.sha256(b"first").hexdigest(), "5"]
    before = records.read_bytes()
    fetch(unknown, target, mirror, records=records)
    (mirror / "set/file.bin").write_bytes(b"other")
    with pytest.raises(
        DataError, match="expected, as recorded at first use, sha256 " + hashlib.sha256(b"first").hexdigest()
    ):
        fetch(unknown, target, mirror, records=records)
    assert target.read_bytes() == b"first" and records.read_bytes() == before
    records.write_text(records.read_text() + "half a line\n")
    with pytest.raises(DataError, match=r"checksums\.tsv: line 3: found 'half a line'"):
        fetch(unknown, target, mirror, records=records)


def test_first_use_takes_no_namesake(tmp_path: Path, source: Source) -> None:
    mirror = mirror_with(tmp_path, b"of another set", "other")
    unknown = replace(source, file="set/file.bin", package="", checksum="first-use", bytes=0)
    with pytest.raises(DataError, match=r"set/file\.bin: missing"):
        fetch(unknown, tmp_path / "t", mirror)


def test_which_folder_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rule for all programs: what a program is given, the configuration, the environment."""
    monkeypatch.setenv("PRETRIEVE_MIRROR", "c")
    found = [mirror_folder({"mirror": "b"}, Path("a")), mirror_folder({"mirror": "b"}), mirror_folder({"mirror": None})]
    assert found == [Path("a"), Path("b"), Path("c")]
    with pytest.raises(ConfigError, match="PRETRIEVE_MIRROR: c is no folder"):
        check_mirror({"mirror": None})
    monkeypatch.setenv("PRETRIEVE_MIRROR", "")
    assert mirror_folder({}) is None
    own = [
        file.name
        for file in Path(sources_module.__file__).parents[1].rglob("*.py")
        if "PRETRIEVE_MIRROR" in file.read_text()
    ]
    assert own == ["mirror.py"]


def make_archive(folder: Path, content: bytes) -> tuple[dict[str, Source], Path]:
    """A source that is a member, its archive's, and the archive in a mirror."""
    mirror = folder / "mirror"
    mirror.mkdir()
    with zipfile.ZipFile(mirror / "set.zip", "w") as archive:
        archive.writestr("set/corpus.jsonl", content)
    packed = (mirror / "set.zip").read_bytes()
    md5 = "md5:" + hashlib.md5(packed).hexdigest()
    holder = Source("set-archive", "set.zip", "", "", md5, len(packed), "CC0", "")
    digest = hashlib.sha256(GOOD).hexdigest()
    member = Source(
        "set-corpus", "set/corpus.jsonl", "", "set/corpus.jsonl", digest, 0, "CC0", "", archive="set-archive"
    )
    return {source.name: source for source in (holder, member)}, mirror


def test_a_member_brings_its_archive_along(tmp_path: Path) -> None:
    sources, mirror = make_archive(tmp_path, GOOD)
    data = tmp_path / "data"
    member = sources["set-corpus"]
    fetch(member, data / member.file, mirror, sources, data / "checksums.tsv")
    assert (data / "set/corpus.jsonl").read_bytes() == GOOD and (data / "set.zip").is_file()
    assert sorted(path.name for path in (data / "set").iterdir()) == ["corpus.jsonl"]
    (mirror / "set.zip").unlink()  # what is in place is not fetched again
    fetch(member, data / member.file, mirror, sources, data / "checksums.tsv")
    unknown = replace(member, path="set/none")
    with pytest.raises(DataError, match=r"set\.zip: no member set/none"):
        fetch(unknown, data / member.file, mirror, sources, data / "checksums.tsv")


def test_a_wrong_member_is_named(tmp_path: Path) -> None:
    sources, mirror = make_archive(tmp_path, b"wrong")
    member = sources["set-corpus"]
    with pytest.raises(
        DataError, match=rf"set/corpus\.jsonl of .*set\.zip has sha256 {hashlib.sha256(b'wrong').hexdigest()}"
    ):
        fetch(member, tmp_path / "data/set/corpus.jsonl", mirror, sources)
    assert not list((tmp_path / "data/set").iterdir())


def test_the_publisher_comes_last(tmp_path: Path, source: Source) -> None:
    asked = []

    def download(url: str, target: Path, checksum: Checksum, size: int, label: str, check: object) -> Digests:
        asked.append(url)
        target.write_bytes(GOOD)
        return digests_of(target, checksum)

    online = replace(source, url="https://publisher/file.bin")
    assert "pretrieve_test_data" in fetch(online, tmp_path / "t", download=download) and not asked
    online = replace(online, package="")
    assert (
        fetch(online, tmp_path / "t", mirror_with(tmp_path, b"bad"), download=download) == online.url
        and len(asked) == 1
    )


def test_a_failed_download_says_how_to_supply_the_file(tmp_path: Path, source: Source) -> None:
    def download(url: str, *rest: object) -> Digests:
        raise DataError(f"{url}: HTTP 404")

    online = replace(source, url="https://publisher/file.bin", package="")
    with pytest.raises(DataError) as caught:
        fetch(online, tmp_path / "t", mirror_with(tmp_path, b"bad"), download=download)
    for word in (
        "HTTP 404",
        "Also: ",
        "mirror/file.bin has sha256",
        "--config mirror=FOLDER",
        "under the name file.bin",
    ):
        assert word in str(caught.value)


@needs()
def test_every_file_of_the_mirror_is_known(tmp_path: Path) -> None:
    """Found, unpacked where it is a gzip copy, and right."""
    sources = read_sources(LIST)
    alone = [source for source in sources.values() if not (source.archive or source.url or source.package)]
    small = [source for source in alone if source.bytes < 3_000_000]
    assert len(alone) > 50 and len(small) > 40
    for source in small:
        fetch(source, tmp_path / "data" / source.file, MIRROR, sources, tmp_path / "checksums.tsv")
    for name in (
        "beir-scifact-corpus",
        "beir-scifact-qrels-test",
        "stsb-train",
        "dl19-passage-qrels",
        "msmarco-queries-dev-small",
    ):
        origin = fetch(
            sources[name], tmp_path / "data" / sources[name].file, MIRROR, sources, tmp_path / "checksums.tsv"
        )
        assert Path(origin).is_relative_to(MIRROR), (
            "the publisher's file, known by the publisher's or its users' checksum"
        )
    assert not (tmp_path / "checksums.tsv").exists(), "nothing was taken on trust"
