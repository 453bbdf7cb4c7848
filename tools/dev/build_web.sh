#!/usr/bin/env bash
# Makes the pages that msprobe puts results into, one per folder of tools/web: build-web/monitor_report.html, compare.html and so on.
# The next build of msprobe embeds them; without them everything but `monitor report` and `--format html` works. Needs npm and a
# registry it can reach; what is fetched is pinned by tools/web/package-lock.json, and nothing of it is run but the bundler.
#
#   tools/dev/build_web.sh [--if-possible]     --if-possible: says what is missing and succeeds
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if_possible=0
case ${1:-} in
  "") ;;
  --if-possible) if_possible=1 ;;
  *) fail "unknown argument $1" "known: --if-possible" ;;
esac

# give_up REASON HINT
give_up() {
  [ "$if_possible" = 1 ] || fail "$@"
  say "without pages (\`msprobe monitor report\`, \`--format html\`): $1 ($2)"
  exit 0
}

source=tools/web
mkdir -p build-web

# The same sources and packages give the same pages: nothing to do when both are as they were.
sources=$(find "$source" -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)
if [ "$(cat build-web/sources.sha256 2>/dev/null)" = "$sources" ]; then
  say "the pages in build-web/ are up to date"
  exit 0
fi

command -v npm >/dev/null || give_up "npm is not installed" "tools/install_dependencies.sh page"
# Packages only change with the list of them.
if ! cmp -s "$source/package-lock.json" build-web/package-lock.json || [ ! -d build-web/node_modules/esbuild ]; then
  cp "$source/package.json" "$source/.npmrc" build-web/
  say "fetching what the pages are made of (npm ci in build-web/)"
  log=build-web/npm.log
  (cp "$source/package-lock.json" build-web/ && cd build-web && timeout 300 npm ci --ignore-scripts --no-progress >npm.log 2>&1) || {
    rm -f build-web/package-lock.json
    grep -v '^npm warn' "$log" | tail -5 >&2 || true
    give_up "npm could not fetch the pages' packages, see $log" "is a registry within reach? npm config get registry"
  }
fi
node "$source/build.mjs" build-web/node_modules build-web || fail "bundling the pages failed; the messages stand above"
printf '%s\n' "$sources" >build-web/sources.sha256
