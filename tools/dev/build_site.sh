#!/usr/bin/env bash
# Makes a site of docs/ in build-site/site, in English and Chinese, with search in both. It needs no network and no server: open
# build-site/site/index.html, or put the folder on any static server.
#
#   tools/dev/build_site.sh [--check]
#
#   --check   also follows every link and anchor of the site, and searches it in headless Chromium, where that is installed
#
# Sphinx, its Markdown reader and its theme are those of tools/site/requirements.txt. pip fetches them once, into build-site/venv.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

check=0
while [ $# -gt 0 ]; do
  case $1 in
    --check) check=1 ;;
    -h | --help) sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) fail "unknown argument $1" "known: --check" ;;
  esac
  shift
done

python=build-site/venv/bin/python
if ! cmp -s tools/site/requirements.txt build-site/venv/made_of; then
  tools/install_dependencies.sh site
  say "fetching Sphinx"
  mkdir -p build-site
  /usr/bin/python3 -m venv --clear build-site/venv
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --requirement tools/site/requirements.txt \
    || fail "pip could not fetch the packages of tools/site/requirements.txt" "check the network and pip's configuration"
  cp tools/site/requirements.txt build-site/venv/made_of
fi
SITE_VERSION=$(sed -n 's/^project(msprobe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SITE_VERSION SOURCE_DATE_EPOCH

work=build-site/work site=build-site/site
rm -rf "$work" "$site"
mkdir -p "$work" "$site"
for language in en zh; do
  say "the pages in $language"
  "$python" tools/dev/site_pages.py stage "$language" "$work/$language"
  mkdir -p "$work/$language/_static"
  cp tools/site/site.css "$work/$language/_static/"
  cp tools/site/conf.py "$work/$language/"
  SITE_LANGUAGE=$language "$python" -m sphinx -q -W --keep-going -j auto -b html -d "$work/trees-$language" "$work/$language" "$site/$language" \
    || fail "Sphinx finds mistakes in the pages; its messages stand above"
  rm -f "$site/$language/.buildinfo" "$site/$language/objects.inv"
done
# Who opens the folder meets the language of the browser.
cat >"$site/index.html" <<'PAGE'
<!doctype html>
<meta charset="utf-8">
<title>msprobe</title>
<script>location.replace((/^zh/.test(navigator.language) ? 'zh' : 'en') + '/index.html')</script>
<p><a href="en/index.html">English</a> | <a href="zh/index.html">中文</a></p>
PAGE

if [ "$check" = 1 ]; then
  say "following links"
  "$python" tools/dev/site_pages.py check "$site" || fail "the site has links that lead nowhere"
  say "searching"
  status=0
  python3 tests/cli/site_test.py "$site" . || status=$?
  [ "$status" = 0 ] || [ "$status" = 77 ] || fail "what the pages say is not found by the site's search"
fi
say "made: $site ($(find "$site" -name '*.html' | wc -l) pages, $(du -sm "$site" | cut -f1) MB)"
