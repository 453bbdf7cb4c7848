"""The rates of many judged cases, and what was wrong, as text."""
import collections

import scoring


def rate(right, count):
    low, high = scoring.wilson(right, count)
    return "%5.1f %%  (%d of %d; %.1f to %.1f)" % (100.0 * right / max(1, count), right, count,
                                                  100 * low, 100 * high)


def rates(lines, show=print):
    """By kind of fault, task, level, background and family, with 95 % intervals."""
    judged = [line for line in lines if line.get("judged")]
    show("fully right        " + rate(_right(judged), len(judged)))
    for key in ("torch", "kind", "task", "level", "background", "family"):
        show("\nby " + key)
        for value in sorted({line[key] for line in judged}):
            those = [line for line in judged if line[key] == value]
            wrong = collections.Counter(line["judged"] for line in those if line["judged"] != "right")
            show("  %-18s %s  %s" % (value, rate(_right(those), len(those)),
                                     ", ".join("%s %d" % item for item in wrong.most_common())))
    show("\nnot counted")
    left_out = [line for line in lines if not line.get("judged")]
    for reason, count in collections.Counter(line.get("hidden") or line["skipped"] for line in left_out).most_common():
        show("  %5d  %s" % (count, reason))
    # Without a background a benign pair is one run twice.
    benign = [line for line in lines if "benign" in line and line["background"] != "none"]
    show("\nbenign pairs")
    _benign_rates("all", benign, show)
    for key in ("torch", "background", "task", "level"):
        for value in sorted({line[key] for line in benign}):
            _benign_rates(value, [line for line in benign if line[key] == value], show)


def _right(lines):
    return sum(line["judged"] == "right" for line in lines)


def _benign_rates(name, lines, show):
    gated = [line for line in lines if line["benign"]["gate_counts"]]
    show("  %-18s an origin named %s   the gate fails %s" % (
        name, rate(sum(line["benign"]["false_origin"] for line in lines), len(lines)),
        rate(sum(line["benign"]["false_gate"] for line in gated), len(gated))))


def failures(lines, show=print):
    """What was wrong, one seed at a time."""
    for line in lines:
        setting = "%s, %s, %s, %s, PyTorch %s" % (line["family"], line["background"], line["level"], line["task"], line["torch"])
        if line.get("judged") not in (None, "right"):
            truth, answer = line["truth"], line["answer"]
            show("seed %d (%s, %s): %s wrong" % (line["seed"], line["kind"], setting, line["judged"]))
            answers = " | ".join("%s: %s" % (kind, call) for call, kind in truth["answers"][:4])
            show("    truth  step %s %s   effect %s over %s" % (truth["step"], answers, truth["effect"],
                                                               truth["background"]))
            show("    answer step %s %s: %s" % (answer["step"], answer["kind"], answer["call"]))
        benign = line.get("benign")
        if benign and benign["false_origin"]:
            show("seed %d (%s) benign: step %s %s: %s" % (line["seed"], setting, benign["step"], benign["kind"],
                                                         benign["call"]))
        elif benign and benign["false_gate"]:
            show("seed %d (%s) benign: exit code %d, verdict %s" % (line["seed"], setting, benign["exit_code"],
                                                                   benign["verdict"]))


def table(lines, show=print):
    """The rates as docs/commands/compare.md has them."""
    judged = [line for line in lines if line.get("judged")]
    benign = [line for line in lines if "benign" in line and line["background"] != "none"]
    show("| | planted faults: fully right | benign pairs: an origin named | benign pairs: `--fail-on different` |")
    show("|---|---|---|---|")

    def row(name, faults, pairs):
        gated = [line for line in pairs if line["benign"]["gate_counts"]]
        counts = ((_right(faults), len(faults)),
                  (sum(line["benign"]["false_origin"] for line in pairs), len(pairs)),
                  (sum(line["benign"]["false_gate"] for line in gated), len(gated)))
        show("| %s | %s |" % (name, " | ".join(_cell(*count) for count in counts)))

    row("all", judged, benign)
    for value in sorted({line["torch"] for line in judged + benign}):
        row("PyTorch " + value, *[[line for line in part if line["torch"] == value] for part in (judged, benign)])
    for key in ("task", "level", "background"):
        for value in sorted({line[key] for line in judged + benign}):
            row("%s %s" % (key, value.replace("_", " ")), *[[line for line in part if line[key] == value]
                                                           for part in (judged, benign)])
    for kind in sorted({line["kind"] for line in judged}):
        row("fault: " + kind, [line for line in judged if line["kind"] == kind], [])


def _cell(right, count):
    low, high = scoring.wilson(right, count)
    return "%.1f %% of %d (%.1f to %.1f)" % (100.0 * right / count, count, 100 * low, 100 * high) if count else ""
