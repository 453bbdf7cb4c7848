#!/usr/bin/env bash
# Takes the pictures of the docs anew: each page of `--format html` and of `monitor report`, in headless Chromium. Look at them before
# they are committed. The Chinese one needs a font with Chinese letters (Debian: fonts-wqy-zenhei).
#
#   tools/dev/screenshots.sh [BUILD_FOLDER]     default: build
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build=${1:-build}
[ -x "$build/bin/msprobe" ] || fail "there is no $build/bin/msprobe" "tools/dev/screenshots.sh BUILD_FOLDER"
for page in compare_page graph_page answer_page monitor_report; do
  say "pictures of $page"
  python3 "tests/cli/${page}_test.py" "$build/bin/msprobe" . screenshots docs/images
done
