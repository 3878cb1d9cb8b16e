"""Training a WordPiece vocabulary by byte-pair merges (Sennrich et al. 2016), the same on every run.

The trainer of the `tokenizers` library does the same merges, but breaks ties between equally frequent pairs by the iteration
order of a randomly seeded hash map: two runs on the same text give two vocabularies, and with them two sets of result tables.
This one breaks ties by the text of the pair. It is used at training time only; tokenising is done by `tokenizers`.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise

#: Characters kept as entries of their own, most frequent first; rarer ones (foreign scripts) become [UNK].
MAX_ALPHABET = 500
PREFIX = "##"


def _alphabet(words: Mapping[str, int], limit: int) -> set[str]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    return set(sorted(counts, key=lambda character: (-counts[character], character))[:limit])


def wordpiece_entries(
    words: Mapping[str, int], size: int, min_frequency: int = 2, max_alphabet: int = MAX_ALPHABET
) -> list[str]:
    """Vocabulary entries for word counts: characters first (sorted), then merges, most frequent first.

    words: pre-tokenised words and how often each occurs; the order of the mapping does not matter; size: the most entries to
    return; min_frequency: a pair that occurs less often is never merged.

    >>> wordpiece_entries({"low": 5, "lower": 2, "new": 3}, 9)
    ['##e', '##o', '##r', '##w', 'l', 'n', '##ow', 'low', '##ew']
    """
    alphabet = _alphabet(words, max_alphabet)
    ordered = sorted(word for word in words if set(word) <= alphabet)
    symbols = [[character if i == 0 else PREFIX + character for i, character in enumerate(word)] for word in ordered]
    counts = [words[word] for word in ordered]
    entries = sorted({symbol for word in symbols for symbol in word})[:size]
    known = set(entries)

    pair_count: Counter[tuple[str, str]] = Counter()
    pair_words: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for index, word in enumerate(symbols):
        for pair in pairwise(word):
            pair_count[pair] += counts[index]
            pair_words[pair].add(index)
    heap = [(-count, pair) for pair, count in pair_count.items()]
    heapq.heapify(heap)

    while len(entries) < size and heap:
        negative, pair = heapq.heappop(heap)
        count = pair_count.get(pair, 0)
        if count != -negative:  # an outdated entry: put the pair back with its count of now
            if count >= min_frequency:
                heapq.heappush(heap, (-count, pair))
            continue
        if count < min_frequency:
            break
        merged = pair[0] + pair[1].removeprefix(PREFIX)
        if merged not in known:
            known.add(merged)
            entries.append(merged)
        changed: set[tuple[str, str]] = set()
        for index in pair_words.pop(pair):
            word, weight = symbols[index], counts[index]
            for old in pairwise(word):
                pair_count[old] -= weight
            symbols[index] = word = _merge(word, pair, merged)
            for new in pairwise(word):
                pair_count[new] += weight
                pair_words[new].add(index)
                if merged in new:
                    changed.add(new)
        pair_count.pop(pair, None)
        for new in sorted(changed):
            heapq.heappush(heap, (-pair_count[new], new))
    return entries


def _merge(word: list[str], pair: tuple[str, str], merged: str) -> list[str]:
    result, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and word[i] == pair[0] and word[i + 1] == pair[1]:
            result.append(merged)
            i += 2
        else:
            result.append(word[i])
            i += 1
    return result
