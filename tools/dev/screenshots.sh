#!/usr/bin/env bash
# Takes the pictures of the docs anew: each page of `--format html` and of `monitor report`, in headless Chromium; those of
# docs/first-ten-minutes.md need PyTorch, too. Look at them before
# they are committed. The Chinese one needs a font with Chinese letters (Debian: fonts-wqy-zenhei).
#
#   tools/dev/screenshots.sh [BUILD_FOLDER]     default: build
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build=${1:-build}
[ -x "$build/bin/msprobe" ] || fail "there is no $build/bin/msprobe" "tools/dev/screenshots.sh BUILD_FOLDER"
for page in compare_page graph_page answer_page monitor_report first_minutes; do
  say "pictures of $page"
  /usr/bin/python3 "tests/cli/${page}_test.py" "$build/bin/msprobe" . screenshots docs/images
done
