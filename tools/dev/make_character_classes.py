#!/usr/bin/env python3
"""Writes config/character_classes.txt: which kind of text each character of Unicode belongs to, for `msprobe gen_model_config`.

    python3 tools/dev/make_character_classes.py

A character is what its Unicode name says (LATIN SMALL LETTER A: latin), else what its general category says. A line gives the first
character of a run and the class of all up to the next line. Needs nothing but Python, whose table of Unicode is taken.
"""
import pathlib
import unicodedata

# Words of names, in the order in which they are looked for.
SCRIPTS = (("DIGIT", "digit"), ("MATHEMATICAL", "mathematics"), ("MODIFIER LETTER", "modifier_letter"), ("CJK", "cjk"),
           ("HIRAGANA", "hiragana"), ("KATAKANA", "katakana"), ("HANGUL", "hangul"), ("THAI", "thai"), ("ARABIC", "arabic"),
           ("CYRILLIC", "cyrillic"), ("DEVANAGARI", "devanagari"), ("LATIN", "latin"), ("VARIATION SELECTOR", "variation_selector"))
CATEGORIES = {"P": "punct", "S": "symbol", "C": "control", "Z": "whitespace"}
# How vocabularies spell blanks and line feeds.
BLANKS = "\u2581\u0120\u010A\u2588"


def class_of(code: int) -> str:
    character = chr(code)
    if character == " " or character in BLANKS:
        return "blank"  # white space that can be printed
    if character.isspace():
        return "whitespace"
    if 0x1F300 <= code <= 0x1FAFF:
        return "emoji"
    name = unicodedata.name(character, "")
    for word, script in SCRIPTS:
        if word in name:
            return script
    return CATEGORIES.get(unicodedata.category(character)[0], "other")


def main() -> None:
    lines = ["# Made by tools/dev/make_character_classes.py from Unicode %s." % unicodedata.unidata_version]
    before = ""
    for code in range(0x110000):
        kind = class_of(code)
        if kind != before:
            lines.append("%X %s" % (code, kind))
            before = kind
    path = pathlib.Path(__file__).resolve().parents[2] / "config/character_classes.txt"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
