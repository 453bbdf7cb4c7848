#!/usr/bin/env bash
# Fuzzes every reader with libFuzzer, AddressSanitizer and UBSan, starting from the checked-in corpus.
#
#   tools/dev/fuzz.sh [SECONDS]    for each fuzzer, default 60
#
# New inputs are collected in build-fuzz/corpus; a crashing input is kept in build-fuzz/crashes.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${1:-60}

cmake --preset fuzz >/dev/null || fail "cmake could not configure the preset fuzz" "tools/install_dependencies.sh build fuzz"
say "building the preset fuzz"
build_preset fuzz
mkdir -p build-fuzz/crashes
failed=()
for fuzzer in build-fuzz/bin/fuzz_*; do
  name=$(basename "$fuzzer")
  name=${name#fuzz_}
  seeds=()
  while read -r folder; do
    [ ! -d "$folder" ] || seeds+=("$folder")
  done <"build-fuzz/seeds/$name"
  mkdir -p "build-fuzz/corpus/$name"
  say "fuzzing $name for $seconds s"
  "$fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="build-fuzz/crashes/$name-" "build-fuzz/corpus/$name" "${seeds[@]}" 2>&1 | tail -12 \
    || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || fail "these fuzzers found something: ${failed[*]}" "inputs in build-fuzz/crashes"
say "fuzzing ended without findings"
