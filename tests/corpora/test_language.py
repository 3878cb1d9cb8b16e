"""The language of a corpus.

Seen to fail when: every text is judged alone and the first decides; a language without an analyser gets the nearest one that has
one; numbers count as a language.
"""

from __future__ import annotations

import yaml

from pretrieve.base.code_folder import package_file
from pretrieve.corpora.language import LANGUAGES, NONE, Language, language_of

GERMAN = "Der Hund liegt vor dem Haus und wartet auf den Regen, der heute noch kommen soll."
ENGLISH = "The dog lies in front of the house and waits for the rain that is to come today."


def test_most_of_the_texts_decide() -> None:
    found = language_of([ENGLISH] * 30 + [GERMAN] * 100)
    assert (found.code, found.found) == ("de", "de") and 0.7 < found.share < 0.9
    assert language_of([ENGLISH]).code == "en"


def test_titles_in_lower_case_are_judged_together() -> None:
    titles = ["hund und katze", "haus am see", "regen im märz", "die alte brücke", "wege durch den wald"] * 20
    assert language_of(titles).code == "de"


def test_every_script() -> None:
    texts = {
        "zh": "今天下雨了，我们整天都待在家里看书。",
        "ja": "今日は雨が降ったので、私たちは一日中家で本を読んでいました。",
        "ru": "Сегодня шёл дождь, и мы весь день сидели дома и читали книги.",
        "ar": "هطل المطر اليوم وبقينا في المنزل طوال النهار نقرأ الكتب.",
        "fr": "Il a plu aujourd'hui et nous sommes restés à la maison toute la journée pour lire.",
        "no": "Eg veit ikkje kva dei heiter, men dei har vore her lenge og likar seg godt.",
    }
    assert {code: language_of([text] * 5).code for code, text in texts.items()} == {code: code for code in texts}


def test_a_language_without_an_analyser_gets_none() -> None:
    found = language_of(["Kötturinn situr á mottunni og horfir á mig á meðan rigningin fellur fyrir utan."] * 5)
    assert found == Language(NONE, "is", 1.0)
    assert language_of(["12 3.5 7", ""]) == language_of([]) == Language("en", "", 1.0)


def test_the_configuration_knows_the_same_languages() -> None:
    schema = yaml.safe_load(package_file("schemas/config.schema.yaml").read_text())
    assert schema["$defs"]["language"]["enum"] == list(LANGUAGES)
