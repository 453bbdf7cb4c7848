#!/usr/bin/env python3
"""No secret of the corpus is left, what reads a text reads it masked, and what is no secret stays byte for byte.

usage: masking_test.py PATH_TO_mask_echo
"""
import json
import random
import shlex
import subprocess
import sys
import time

try:
    import yaml
except ImportError:
    yaml = None

import corpus


def masked(echo, records, limit=60):
    done = subprocess.run([echo], input=b"".join(record.encode("utf-8", "surrogateescape") + b"\0" for record in records),
                          stdout=subprocess.PIPE, check=True, timeout=limit)
    answers = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    assert len(answers) == len(records), (len(answers), len(records))
    return answers


def readable(text, reader):
    """What a reader makes of a text: its shape without the values."""
    def shape(value):
        if isinstance(value, dict):
            return {key: shape(item) for key, item in value.items()}
        return len(value) if isinstance(value, list) else None
    if reader == "json":
        return shape(json.loads(text))
    if reader == "yaml" and yaml is not None:
        return shape(yaml.safe_load(text))
    return len(shlex.split(text)) if reader == "shell" else None


def check_secrets(echo):
    cases = sorted(set(corpus.secrets()), key=lambda case: (case[0], case[1] or ""))
    answers = masked(echo, [text for text, _ in cases])
    again = masked(echo, answers)
    problems = []
    for (text, reader), answer, twice in zip(cases, answers, again):
        if corpus.CORE.lower() in answer.lower() or corpus.B64 in answer or corpus.LONG in answer or corpus.CAPITALS in answer:
            problems.append(("left", text, answer))
        elif "***" not in answer:
            problems.append(("not marked", text, answer))
        elif answer != twice:
            problems.append(("masking twice", answer, twice))
        elif len(answer) > 3 * len(text) + 16:
            problems.append(("longer", text, answer))
        else:
            try:
                same = readable(answer, reader) == readable(text, reader)
            except ValueError as error:
                same = False
                text = "%s (%s)" % (text, error)
            except yaml.YAMLError as error:
                same = False
                text = "%s (%s)" % (text, error)
            if not same:
                problems.append(("not read as before by " + reader, text, answer))
    return len(cases), problems


def check_named(echo):
    cases = list(corpus.named()) + list(corpus.doubtful())
    answers = masked(echo, ["%s\1%s" % case for case in cases])
    return len(cases), [("named", case, answer) for case, answer in zip(cases, answers) if answer != "***"]


def check_words(echo):
    """Command lines that are words already."""
    cases = []
    for name, value in random.Random(2).sample(list(corpus.named()), 400):
        if not value.startswith("-"):
            cases.append((["compare", "--" + name, value, "-o", "out"], ["compare", "--" + name, "***", "-o", "out"]))
        cases.append((["compare", "--%s=%s" % (name, value), "a b"], ["compare", "--%s=***" % name, "a b"]))
        cases.append((["run", "%s=%s" % (name, value), "--pad-token", "<pad>"], ["run", "%s=***" % name, "--pad-token", "<pad>"]))
    answers = masked(echo, ["\2".join(words) for words, _ in cases])
    return len(cases), [("words", case, answer) for case, answer in zip(cases, answers) if answer.split("\2") != case[1]]


def check_harmless(echo):
    cases = corpus.harmless()
    whole = "\n".join(case for case in cases if not case.startswith(("a == b", "C:")))
    answers = masked(echo, cases + [whole])
    problems = [("changed", case, answer) for case, answer in zip(cases, answers) if case != answer]
    problems += [("changed in a long text", a, b) for a, b in zip(whole.split("\n"), answers[-1].split("\n")) if a != b]
    return len(cases), problems


def check_any_bytes(echo):
    """Texts put together at random: masked twice as once, not much longer; JSON stays JSON."""
    draw = random.Random(3)
    pieces = ["password", "token", "key", "=", ":", " ", "\n", "\"", "'", "\\", "--", "://", "@", "{", "}", "[", "]", ",", ";", "&", "***", "*",
              "Bearer ", "Basic ", "-----BEGIN PRIVATE KEY-----", "-----END", "<password>", "</password>", "|", ">", "  ", "- ", "eyJ", "gh" + "p_",
              "abcdefgh", "\udcff", "\u5bc6\u7801", "\uff1a", "\0x"[1:], "?sig=", "sshpass ", "-p ", "curl ", "-u ", "a:b", "/hooks/", "#", "\\n", "\\\"", "\t", "\r\n", "$", "1"]
    texts = ["".join(draw.choice(pieces) for _ in range(draw.randrange(1, 40))) for _ in range(30000)]
    answers = masked(echo, texts)
    problems = [("masking twice", text, (once, twice)) for text, once, twice in zip(texts, answers, masked(echo, answers)) if once != twice]
    problems += [("longer", text, answer) for text, answer in zip(texts, answers) if len(answer) > 4 * len(text) + 16]
    objects = []
    for text in texts:
        plain = text.encode("utf-8", "replace").decode("utf-8")
        objects.append(json.dumps({"lr": plain, plain[:9]: [plain, {"token": plain, "n": 1}], "password": draw.choice([1, True, 123456, plain])},
                                  indent=draw.choice([None, 2]), ensure_ascii=draw.random() < 0.5))
    for text, answer in zip(objects, masked(echo, objects)):
        try:
            json.loads(answer)
        except ValueError as error:
            problems.append(("no JSON any more: %s" % error, text, answer))
    return 2 * len(texts), problems


def check_time(echo):
    """A line of 1 MiB of anything takes no longer than a text of the same size."""
    problems = []
    pieces = ["password=", "password: ", "token=\"", "token='a", "key=[", "secret={\"a\":", "--pwd ", "--pwd=a;", "://", "://a:b", "eyJ.", "eyJaaaaaaaa.", "gh" + "p_",
              "-----BEGIN PRIVATE KEY-----", "Bearer ", "Basic a", "\\\"", "\"token\":", "<password>", "<token><", "a" * 64, "=", ":", "token: <", "token: \n  ", "token:\n- a\n",
              "password: |\n", "key=a,b", "\\", "'", "token=b'", "123456:AA", "sshpass -p", "curl -u a:", "/hooks/", "https://h/hooks/", "password\uff1a", "----", "-a", "\\\"token\\\":\\\"", "((((token=("]
    for piece in pieces:
        text = piece * (2**20 // len(piece))
        began = time.monotonic()
        try:
            answer = masked(echo, [text], 10)[0]
        except subprocess.TimeoutExpired:
            problems.append(("more than 10 s", piece, ""))
            continue
        took = time.monotonic() - began
        if took > 5:
            problems.append(("%.1f s" % took, piece, ""))
        if masked(echo, [answer])[0] != answer:
            problems.append(("masking twice", piece, answer[:80]))
    return len(pieces), problems


def main():
    failed = False
    for check in (check_secrets, check_named, check_words, check_harmless, check_any_bytes, check_time):
        count, problems = check(sys.argv[1])
        print("%s: %d cases, %d problems" % (check.__name__, count, len(problems)))
        for kind, case, answer in problems[:15]:
            print("  %s: %r -> %r" % (kind, case, answer))
        failed = failed or bool(problems)
        assert count >= (30 if check is check_time else 300), count
    assert len(corpus.FORMS) + len(corpus.LOOK_FORMS) * len(corpus.LOOKS) + len(corpus.TEXTS) >= 300
    sys.exit(failed)


if __name__ == "__main__":
    main()
