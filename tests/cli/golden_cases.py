"""What the golden tests of this folder share: finding the cases, scoring them, telling the score.

A test script says how one case is run:

    def run_case(msprobe, case, score):      # paths of the program and of the case's folder, a Score
        score.count(good, "what is wrong otherwise")

    if __name__ == "__main__":
        sys.exit(golden_cases.main("monitor", "case.json", run_case))

and is called as

    golden_X_test.py MSPROBE CASES_FOLDER [CASE...]
    golden_X_test.py MSPROBE further      the cases of $MSPROBE_GOLDEN/SUBJECT (default ../shared/golden/SUBJECT)

A case is a folder that holds the marker file. Exit status 0 only if everything agrees, 77 (skipped) when CASES_FOLDER is absent.
"""
import os
import sys
from pathlib import Path

SHOWN_FINDINGS = 10
SKIPPED = 77


class Score:
    """Counts what agrees and keeps a sentence about everything that does not."""

    def __init__(self):
        self.agree = 0
        self.total = 0
        self.findings = []

    def count(self, good, finding, weight=1):
        """One fact that agrees or not; `weight` facts at once where a whole row is missing."""
        self.total += weight
        if good:
            self.agree += weight
        else:
            self.findings.append(finding)

    def show(self, name):
        print("%-30s %7d of %7d agree" % (name, self.agree, self.total))
        for finding in self.findings[:SHOWN_FINDINGS]:
            print("    " + finding.replace("\n", "\\n"))
        if len(self.findings) > SHOWN_FINDINGS:
            print("    ... and %d more" % (len(self.findings) - SHOWN_FINDINGS))

    def is_full(self):
        return 0 < self.total == self.agree and not self.findings


def cases_folder(where, subject):
    if where != "further":
        return Path(where).resolve()
    repository = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("MSPROBE_GOLDEN") or repository.parent / "shared/golden").resolve() / subject


def main(subject, marker, run_case):
    """The exit status of the whole test."""
    msprobe, folder, wanted = Path(sys.argv[1]).resolve(), cases_folder(sys.argv[2], subject), sys.argv[3:]
    if not folder.is_dir():
        print("no folder %s: skipped" % folder)
        return SKIPPED
    cases = sorted(path.parent for path in folder.glob("*/" + marker) if not wanted or path.parent.name in wanted)
    if not cases:
        print("no cases in %s" % folder)
        return 1
    scores = []
    for case in cases:
        scores.append(Score())
        run_case(msprobe, case, scores[-1])
        scores[-1].show(case.name)
    full = sum(score.is_full() for score in scores)
    print("golden %s: %d of %d facts agree, %d of %d cases fully" %
          (subject, sum(score.agree for score in scores), sum(score.total for score in scores), full, len(cases)))
    return 0 if full == len(cases) else 1
