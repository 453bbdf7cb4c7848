#!/usr/bin/env bash
# Fuzzes every reader with libFuzzer, AddressSanitizer and UBSan, starting from the checked-in corpus.
#
#   tools/dev/fuzz.sh [SECONDS] [READER...]                   each for so long, default 60
#   tools/dev/fuzz.sh --runs N [--seconds S] [READER...]      each until it has run N inputs, all calls counted; in this call for
#                                                             at most S seconds each
#   tools/dev/fuzz.sh --keep [READER...]                      minimises what was collected; small inputs go to tests/fuzz/corpus
#   --fast                                                    without sanitizers, with the checks of the release build: several times
#                                                             as many inputs a second. A call without it begins with all they found
#   --no-build                                                takes the fuzzers as they were built last
#
# Everything is kept in build-fuzz, so that a call goes on where the last one stopped, however it ended: new inputs in corpus, what
# made a reader fail in crashes, counts in results, which begin with those of the table in docs/security.md.
# tools/dev/fuzz_table.py makes that table of them.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds='' runs=0 keep=0 build=1 preset=fuzz
readers=()
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=${2:?--runs needs a number}; shift ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --keep) keep=1 ;;
    --fast) preset=fuzz-fast ;;
    --no-build) build=0 ;;
    -h | --help) sed -n '2,15p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    -*) fail "unknown argument $1" "known: [SECONDS] --runs N --seconds S --keep --fast --no-build [READER...]" ;;
    *) if [[ $1 =~ ^[0-9]+$ ]]; then seconds=$1; else readers+=("$1"); fi ;;
  esac
  shift
done
[[ $runs$seconds =~ ^[0-9]+$ ]] || fail "--runs and --seconds take numbers"

if [ "$build" = 1 ]; then
  cmake --preset "$preset" >/dev/null || fail "cmake could not configure the preset $preset" "tools/install_dependencies.sh build fuzz"
  say "building the preset $preset"
  build_preset "$preset" fuzzers
fi
if [ ${#readers[@]} -eq 0 ]; then
  for fuzzer in "build-$preset"/bin/fuzz_*; do readers+=("${fuzzer##*/fuzz_}"); done
fi
mkdir -p build-fuzz/crashes build-fuzz/results build-fuzz/logs
# A read of one file may take 25 s and 2 GiB at most, leaks included. Short inputs reach what long ones do, and more of them are run.
limits=(-rss_limit_mb=2048 -malloc_limit_mb=2048 -timeout=25)
# Counting how often a branch is taken, and weighing inputs by how rare theirs are, takes longer than most of these readers do: without
# it the same time reaches more branches.
if [ "$preset" = fuzz ]; then limits+=(-max_len=16384); else limits+=(-max_len=4096 -entropic=0 -use_counters=0); fi

# inputs_of READER: the collected and the checked-in corpora.
inputs_of() {
  printf '%s\n' "build-fuzz/corpus/$1"
  while read -r folder; do
    [ ! -d "$folder" ] || printf '%s\n' "$folder"
  done <"build-$preset/seeds/$1"
}

# One slice: executions, seconds and findings are added to results/READER.
fuzz() {
  local name=$1 log=build-fuzz/logs/$1.log
  shift
  local status=0 executed took=$SECONDS
  mapfile -t inputs < <(inputs_of "$name")
  "build-$preset/bin/fuzz_$name" "$@" "${limits[@]}" -print_final_stats=1 -artifact_prefix="build-fuzz/crashes/$name-" \
    "${inputs[@]}" >"$log" 2>&1 || status=$?
  executed=$(awk '/^stat::number_of_executed_units:/ { print $2 }' "$log")
  printf '%s %s %s %s\n' "${executed:-0}" "$((SECONDS - took))" "$((status != 0))" "$preset" >>"build-fuzz/results/$name"
  return "$status"
}

# Counts go on where the table of docs/security.md stands, on whichever machine that was made.
executed_so_far() {
  if [ ! -f "build-fuzz/results/$1" ]; then
    awk -F ' *[|] *' -v name="$1" '$2 == name {
      gsub(",", "")
      seconds = $6 > 0 ? $4 / $6 : 0
      print $5, int($4 > 0 ? seconds * $5 / $4 : 0), 0, "fuzz"
      print $4 - $5, int($4 > 0 ? seconds * ($4 - $5) / $4 : 0), 0, "fuzz-fast"
    }' docs/security.md >"build-fuzz/results/$1"
  fi
  awk '{ sum += $1 } END { printf "%.0f\n", sum }' "build-fuzz/results/$1"
}

failed=()
for name in "${readers[@]}"; do
  [ -x "build-$preset/bin/fuzz_$name" ] || fail "there is no fuzzer fuzz_$name" "$(ls "build-$preset/bin" | sed -n 's/^fuzz_//p' | tr '\n' ' ')"
  mkdir -p "build-fuzz/corpus/$name"
  executed_so_far "$name" >/dev/null
  if [ "$keep" = 1 ]; then
    mapfile -t inputs < <(inputs_of "$name")
    rm -rf "build-fuzz/corpus.new"
    mkdir -p build-fuzz/corpus.new
    "build-$preset/bin/fuzz_$name" -merge=1 "${limits[@]}" build-fuzz/corpus.new "${inputs[@]}" >"build-fuzz/logs/$name.log" 2>&1 \
      || fail "merging the corpus of $name failed" "build-fuzz/logs/$name.log"
    rm -rf "build-fuzz/corpus/$name"
    mv build-fuzz/corpus.new "build-fuzz/corpus/$name"
    # The smallest ones, 8 KiB in all: enough for a regression test, and a start for the next search.
    target=tests/fuzz/corpus/$name
    mkdir -p "$target"
    find "build-fuzz/corpus/$name" -type f -printf '%s %p\n' | sort -n | awk '{ sum += $1 } sum <= 8192 && NR <= 24 { print $2 }' \
      | while read -r input; do cp -n "$input" "$target/"; done
    say "$name: $(find "build-fuzz/corpus/$name" -type f | wc -l) inputs"
    continue
  fi
  if [ "$runs" = 0 ]; then
    say "fuzzing $name for ${seconds:-60} s"
    fuzz "$name" -max_total_time="${seconds:-60}" || failed+=("$name")
  else
    begin=$SECONDS
    # Slices, so that an interrupted call loses little.
    while missing=$((runs - $(executed_so_far "$name"))) && [ "$missing" -gt 0 ]; do
      left=$((${seconds:-1000000000} - (SECONDS - begin)))
      [ "$left" -gt 0 ] || break
      fuzz "$name" -runs=$((missing < 2000000 ? missing : 2000000)) -max_total_time=$((left < 120 ? left : 120)) \
        || { failed+=("$name"); break; }
    done
  fi
  printf '%-20s %12s executions %6s a second  %s\n' "$name" "$(executed_so_far "$name")" \
    "$(awk '{ n += $1; s += $2 } END { print s ? int(n / s) : n + 0 }' "build-fuzz/results/$name")" \
    "$(grep -c . < <(find build-fuzz/crashes -name "$name-*")) findings"
done
[ ${#failed[@]} -eq 0 ] || fail "these fuzzers found something: ${failed[*]}" "inputs in build-fuzz/crashes, reports in build-fuzz/logs"
say "fuzzing ended without findings"
