#!/usr/bin/env bash
# Makes the page that `msprobe monitor report` puts data into: build-web/monitor_report.html. The next build of msprobe
# embeds it; without it everything but `report` works. Needs npm and a registry it can reach; what is fetched is pinned by
# tools/web/monitor_report/package-lock.json, and nothing of it is run but the bundler.
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
  say "without \`msprobe monitor report\`: $1 ($2)"
  exit 0
}

source=tools/web/monitor_report
page=build-web/monitor_report.html
mkdir -p build-web

# The same sources and packages give the same page: nothing to do when both are as they were.
sources=$(find "$source" -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)
if [ -f "$page" ] && [ "$(cat build-web/sources.sha256 2>/dev/null)" = "$sources" ]; then
  say "$page is up to date"
  exit 0
fi

command -v npm >/dev/null || give_up "npm is not installed" "tools/install_dependencies.sh page"
cp "$source/package.json" "$source/package-lock.json" "$source/.npmrc" build-web/
say "fetching what the page is made of (npm ci in build-web/)"
log=build-web/npm.log
(cd build-web && timeout 300 npm ci --ignore-scripts --no-progress >npm.log 2>&1) || {
  grep -v '^npm warn' "$log" | tail -5 >&2 || true
  give_up "npm could not fetch the page's packages, see $log" "is a registry within reach? npm config get registry"
}
node "$source/build.mjs" build-web/node_modules "$page" || fail "bundling the page failed; the messages stand above"
printf '%s\n' "$sources" >build-web/sources.sha256
