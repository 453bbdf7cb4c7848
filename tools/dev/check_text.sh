#!/usr/bin/env bash
# What must not be committed: unfinished marks, paths of this machine, long files, stray top-level entries.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

findings=0
# report TITLE LINES: prints and counts when there are any.
report() {
  [ -n "$2" ] || return 0
  printf '%s:\n%s\n' "$1" "$2" | head -20
  findings=$((findings + 1))
}

# All files git knows or would add; outside a clone, everything but build folders.
if git rev-parse --git-dir >/dev/null 2>&1; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard | while read -r f; do [ ! -f "$f" ] || echo "$f"; done)
else
  mapfile -t files < <(find . -type f -not -path './build*' | sed 's|^\./||' | sort)
fi
matching() { printf '%s\n' "${files[@]}" | grep -E "$1" || true; }
search() { local pattern=$1; shift; printf '%s\0' "$@" | xargs -0 -r grep -nIE -- "$pattern" /dev/null 2>/dev/null || true; }

# The brackets keep the pattern from finding itself.
mapfile -t ours < <(matching '^(src|include|tools|cmake|\.ci)/')
report "unfinished marks" "$(search '\b([T]ODO|[F]IXME|[X]XX|[H]ACK|[n]ot implemented|[u]nimplemented)\b' "${ours[@]}")"

mapfile -t prose < <(matching '.' | grep -v '^tests/data/')
report "paths of this machine" "$(for place in "$HOME" "$repository"; do
  [ "$place" = / ] || printf '%s\0' "${prose[@]}" | xargs -0 -r grep -nIF -- "$place/" /dev/null 2>/dev/null || true
done)"

# Words of the field stand for these: component, API, result of.
report "retired words" "$(search '[I]nside of the room|[p]lan of the house|[F]ront door:|^[[:blank:]]*// What .* came to\b|msprobe_[r]oom|[t]he (face|floor) of (this|a|the) component' "${ours[@]}" \
  $(matching '^(docs/design/|CONTRIBUTING.md|README|src/.*README.md)'))"

# Habits of a private language, and the plain words instead:
#   X is no Y            -> X is not a Y                      (there is no X, is no longer, are no larger than: fine)
#   is told              -> is reported, recorded, known      (told apart: fine)
#   nobody, by lot       -> no process, no one; at random     (the user "nobody": fine)
#   another name of      -> alias of
#   // Of X, // Those    -> begin a comment with what it is about
habits='(?<!there )(?<!There )(?<!where )(?<!if )\b(is|are|was|were|be) [n]o\b(?! (longer|more|less|larger|smaller|wider|further|earlier|later|deeper)\b)'
habits+='|\b(is|are|was|were|be|been|being) [t]old\b(?! apart)|\b[Aa]nother [n]ame of\b|\(certain [c]onfidence|(?<!")\b[Nn]obody\b|\bby [l]ot\b|as small as [c]an be'
habits+='|^[[:blank:]]*(//|#) (Of|Those) [^:]*[a-z]'
# Lines in which a phrase is legitimate: part of a name, of a message of another program, of an explanation of the phrase.
habits_allowed='^tools/dev/check_text\.sh:|// is no (memory for them|such status)\b'
report "words of a private language (see tools/dev/check_text.sh)" "$(printf '%s\0' "${ours[@]}" $(matching '^(docs/|config/|src/.*\.md$|CONTRIBUTING.md|README)') \
  | xargs -0 -r grep -nIP -- "$habits" /dev/null 2>/dev/null | grep -vE "$habits_allowed" || true)"

report "blanks at the end of a line" "$(search '[[:blank:]]+$' $(matching '^(src|include|cmake|tools)/.*\.(h|cpp|cmake|py|sh)$'))"

report "files over 1,500 lines" "$(matching '^(src|include)/.*\.(h|cpp)$' | xargs -r wc -l | awk '$2 != "total" && $1 > 1500 { print $2 ": " $1 " lines" }')"

# Prettier with the settings of tools/web/package.json keeps code within 120; markup in templates is broken by hand where htm drops blanks.
report "lines over 140 columns in tools/web" "$(LC_ALL=C.UTF-8 search '^.{141,}' $(matching '^tools/web/.*\.(js|mjs|css|html)$') | cut -c1-160)"

report "top-level entries outside the plan" "$(matching . | cut -d/ -f1 | sort -u \
  | grep -vxE 'CMakeLists.txt|CMakePresets.json|CONTRIBUTING.md|CHANGELOG.md|README.md|README.zh.md|LICENSE|cmake|include|src|tools|config|docs|tests|\..*' || true)"

# What a fuzzer collects belongs into build-fuzz; tools/dev/fuzz.sh --keep takes the smallest of it.
report "corpora of more than 100 files" "$(matching '^tests/fuzz/corpus/' | cut -d/ -f4 | sort | uniq -c | awk '$1 > 100 { print $2 ": " $1 " files" }')"

report "scripts without the run bit" "$(for script in $(matching '^(tools/.*\.(sh|py)|\.ci/run)$'); do
  case $script in */common.sh | tools/python/*) continue ;; esac
  head -c 2 "$script" | grep -q '#!' && [ ! -x "$script" ] && echo "$script"
done)"

# analysis/compare and its sisters may share the README of their parent.
without_readme=$(for file in $(matching '^src/.+/CMakeLists\.txt$'); do
  component=$(dirname "$file")
  parent=$(dirname "$component")
  [ -e "$component/README.md" ] || { [ "$parent" != src ] && [ -e "$parent/README.md" ]; } || echo "$component"
done)
report "components without a README" "$without_readme"

report "texts without a translation" "$(python3 tools/dev/check_texts.py 2>&1 | grep -v '^texts: [0-9]* in Chinese' || true)"

[ "$findings" -eq 0 ] || fail "$findings kinds of findings in ${#files[@]} files"
say "text: ${#files[@]} files, nothing found"
