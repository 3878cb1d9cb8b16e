"""A corpus's Parquet tables → its vocabulary and its token store, read in batches."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from pretrieve.base.files import write_text
from pretrieve.corpora.tables import read_rows, read_table
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import given_tokenizer, load_tokenizer, train_wordpiece


def build_vocabulary(corpus: Path, size: int, given: Path | None, out: Path) -> Tokenizer:
    """Write ``tokenizer.json``: trained on the corpus's passages and titles, or made from a given ``vocab.txt`` or
    ``tokenizer.json``, or a directory with one of them."""
    if given is not None:
        tokenizer = given_tokenizer(given)
    else:
        columns = {"passages": "text", "articles": "title"}.items()
        texts = (text for table, column in columns for (text,) in read_rows(corpus / f"{table}.parquet", [column]))
        tokenizer = train_wordpiece(texts, size)
    write_text(out, tokenizer.to_str(pretty=True))
    return tokenizer


def tokenise_corpus(corpus: Path, tokenizer: Path, out: Path) -> TokenStore:
    """Write the token store of a corpus, with titles and resolved links."""
    columns = ["text", "sentence_starts", "sentence_ends", "section_id", "article_id"]
    passages = (
        PassageText([text[start:end] for start, end in zip(starts, ends, strict=True)], section, article)
        for text, starts, ends, section, article in read_rows(corpus / "passages.parquet", columns)
    )
    titles = (title for (title,) in read_rows(corpus / "articles.parquet", ["title"]))
    links = read_table(corpus / "links.parquet", ["passage_id", "article_id"])
    pairs = links["passage_id"].to_numpy(), links["article_id"].to_numpy()
    sections = read_table(corpus / "sections.parquet", ["article_id"])["article_id"].to_numpy()
    return write_token_store(out, load_tokenizer(tokenizer), passages, titles, pairs, section_articles=sections)
