"""The rates of many judged pairs as text, and what was wrong, one seed at a time."""
import collections

import report  # of ../diagnosis


def _right(lines):
    return sum(line["judged"] == "right" for line in lines)


def _judged(lines):
    return [line for line in lines if line.get("judged")]


def layout_counts(lines):
    return sum(line["layouts_right"] for line in lines), sum(line["layouts"] for line in lines)


def _alarms(lines):
    return sum(line["false_alarm"] for line in lines), len(lines)


def rates(lines, show=print):
    made = [line for line in lines if not line.get("skipped")]
    judged = _judged(made)
    show("faults named right     " + report.rate(_right(judged), len(judged)))
    show("layouts right          " + report.rate(*layout_counts(made)))
    show("false alarms           " + report.rate(*_alarms(made)))
    for key in ("record", "task", "kind", "layout"):
        show("\nby " + key)
        for value in sorted({line[key] for line in made}):
            those = [line for line in made if line[key] == value]
            wrong = collections.Counter(line["judged"] for line in _judged(those) if line["judged"] != "right")
            layouts = layout_counts(those)
            show("  %-46s %s  layouts %d/%d  false alarms %d/%d  %s" % (
                (value, report.rate(_right(_judged(those)), len(_judged(those)))) + layouts + _alarms(those) +
                (", ".join("%s %d" % item for item in wrong.most_common()),)))
    show("\nnot counted")
    for reason, count in collections.Counter(line.get("skipped") or line.get("doubt") for line in lines
                                             if not line.get("judged")).most_common():
        show("  %5d  %s" % (count, reason))


def failures(lines, show=print):
    for line in lines:
        if line.get("skipped"):
            continue
        setting = "%s, %s, %s, %s, %s bench, PyTorch %s" % (line["layout"], line["task"], line["level"], line["record"],
                                                            line["bench_style"], line["torch"])
        truth, answer = line["truth"], line["answer"]
        if line.get("judged") not in (None, "right"):
            show("seed %s %s (%s): %s wrong" % (line["seed"], line["kind"], setting, line["judged"]))
            show("    truth  step %d %s at %s, relation %s, factor %s, ranks %s%s" % (
                truth["step"], "/".join(truth["kinds"]), " | ".join(truth["places"][:3]), truth["relations"], truth["factor"],
                truth["ranks"], "" if truth["gradient_factor"] is None else ", gradient_factor %g" % truth["gradient_factor"]))
            show("    answer step %s %s at %s (%s), relation %s, factor %s, ranks %s" % (
                answer["step"], answer["kind"], answer["call"], answer["row"], answer["relation"], answer["factor"], answer["ranks"]))
        if line["false_alarm"]:
            alarm = line["alarm"]
            show("seed %s without its fault (%s): step %s %s at %s (%s), relation %s" % (
                line["seed"], setting, alarm["step"], alarm["kind"], alarm["call"], alarm["row"], alarm["relation"]))
        for side, path, expected, given in line["wrong_layouts"][:3]:
            show("seed %s (%s): layout of %s on the %s side is \"%s\", not \"%s\"" % (
                line["seed"], setting, path, side, " + ".join(expected), " + ".join(given)))


def table(sets, show=print):
    """The rates as the docs have them. sets: [(name, lines)]."""
    show("| pairs | layout of a logical tensor right | fault right: place, origin, relation, ranks | false alarms |")
    show("|---|---|---|---|")
    for name, lines in sets:
        made = [line for line in lines if not line.get("skipped")]
        judged = _judged(made)
        show("| %s | %s | %s | %s |" % (name, report._cell(*layout_counts(made)), report._cell(_right(judged), len(judged)),
                                        report._cell(*_alarms(made))))
