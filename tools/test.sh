#!/usr/bin/env bash
# Installs what the tests need, builds, and runs all of them; the last lines are ctest's summary.
#
#   tools/test.sh [--sanitizers] [--fuzz [SECONDS]] [--aarch64] [--torch2] [--packages] [--bench]
#                 [--bench-guard [COMMIT]] [--site] [--diagnosis] [--faults] [--frameworks [NAME...]]
#
#   --sanitizers       also builds with AddressSanitizer + UBSan, and with ThreadSanitizer, and runs the tests under both
#   --fuzz [SECONDS]   also fuzzes every reader for so long each (default 60)
#   --aarch64          also cross-compiles for aarch64, runs the tests under qemu and compares results with this machine's
#   --torch2           also runs the tests of the Python shim under PyTorch 2, in a Debian 13 root of its own (needs root),
#                      and with the Python that MSPROBE_TORCH2_PYTHON names, which has another PyTorch 2
#   --packages         also makes the packages and uses each in bare Debian 12 and 13 roots (needs root)
#   --site             also makes the site of docs/, follows its links and searches it
#   --bench            also builds and runs the benchmarks
#   --bench-guard [COMMIT]   also measures this program beside that of COMMIT (default: the one before), which is built beside it,
#                      and fails where a command became 10 % slower, twice in a row (tests/bench/guard.py)
#   --diagnosis        also counts how often compare names a planted fault: 1,000 cases, about an hour (tests/diagnosis),
#                      and as many with the Python of MSPROBE_TORCH2_PYTHON
#   --faults           also makes every call into the system fail in turn: half an hour (tests/faults)
#   --frameworks [NAME...]   also runs the tests with real frameworks, all or these (tests/frameworks); pip fetches them once
#   MSPROBE_GOLDEN     folder with further golden cases (default ../shared/golden); used where it exists
. "$(dirname "${BASH_SOURCE[0]}")/dev/common.sh"

run_sanitizers=0 run_aarch64=0 run_torch2=0 run_packages=0 run_site=0 run_bench=0 guarded= run_diagnosis=0 run_faults=0 run_frameworks=0 fuzz_seconds=0
frameworks=()
while [ $# -gt 0 ]; do
  case $1 in
    --sanitizers) run_sanitizers=1 ;;
    --aarch64) run_aarch64=1 ;;
    --torch2) run_torch2=1 ;;
    --packages) run_packages=1 ;;
    --site) run_site=1 ;;
    --bench) run_bench=1 ;;
    --bench-guard)
      guarded=HEAD~1
      if [ $# -gt 1 ] && [[ $2 != -* ]]; then guarded=$2; shift; fi
      ;;
    --diagnosis) run_diagnosis=1 ;;
    --faults) run_faults=1 ;;
    --frameworks)
      run_frameworks=1
      while [ $# -gt 1 ] && [[ $2 != -* ]]; do frameworks+=("$2"); shift; done
      ;;
    --fuzz)
      fuzz_seconds=60
      if [[ ${2:-} =~ ^[0-9]+$ ]]; then fuzz_seconds=$2; shift; fi
      ;;
    -h | --help) sed -n '2,21p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) fail "unknown argument $1" "known: --sanitizers --fuzz [SECONDS] --aarch64 --torch2 --packages --site --bench --diagnosis --faults --frameworks [NAME...]" ;;
  esac
  shift
done

unset COLUMNS  # transcripts are those of a pipe
export MSPROBE_GOLDEN=${MSPROBE_GOLDEN:-$(dirname "$repository")/shared/golden}

configure() {
  local preset=$1
  shift
  say "configuring the preset $preset"
  cmake --preset "$preset" "$@" >/dev/null || fail "cmake could not configure the preset $preset; its messages stand above"
}

# run_ctest FOLDER [ctest argument...]
run_ctest() {
  local folder=$1
  shift
  say "running the tests of $folder"
  ctest --test-dir "$folder" --parallel "$(nproc)" --output-on-failure --no-label-summary --timeout 900 "$@" \
    || fail "tests failed in $folder; again, one alone: ctest --test-dir $folder --output-on-failure -R NAME"
}

tools/install_dependencies.sh build test
# Without them the page of `msprobe monitor report` is not tested, and those tests say so.
tools/install_dependencies.sh page browser || say "going on without"
tools/dev/build_web.sh --if-possible

if [ "$run_sanitizers" = 1 ]; then
  for preset in asan-ubsan tsan; do
    configure "$preset" -DMSPROBE_TESTS=ON
    say "building the preset $preset"
    build_preset "$preset"
    run_ctest "build-${preset%-ubsan}" --label-exclude release_only
  done
fi

if [ "$fuzz_seconds" -gt 0 ]; then
  tools/install_dependencies.sh fuzz
  tools/dev/fuzz.sh "$fuzz_seconds"
fi

if [ "$run_aarch64" = 1 ]; then
  tools/install_dependencies.sh aarch64
  say "cross-compiling for aarch64 and testing under qemu"
  tools/dev/test_aarch64.sh || fail "the aarch64 tests failed"
fi

if [ "$run_bench" = 1 ]; then
  tools/install_dependencies.sh bench
  configure bench
  build_preset bench
  for benchmark in build-bench/bin/*_bench; do
    say "running $(basename "$benchmark")"
    "$benchmark" --benchmark_min_time=0.2 || fail "$benchmark failed"
  done
fi

if [ -n "$guarded" ]; then
  commit=$(git rev-parse --verify --quiet --short=12 "$guarded^{commit}") || fail "there is no commit $guarded" "git log lists them"
  before=$repository/build-guard/$commit
  if [ ! -x "$before/build/bin/msprobe" ]; then
    say "building $commit to measure beside it"
    git worktree prune
    [ -d "$before" ] || git worktree add --detach "$before" "$commit" >/dev/null
    (cd "$before" && tools/dev/build_web.sh --if-possible && cmake --preset release >/dev/null && cmake --build --preset release --parallel "$(build_jobs)") \
      || fail "$commit could not be built" "another one: tools/test.sh --bench-guard COMMIT"
  fi
  configure release -DMSPROBE_TESTS=ON
  build_preset release
  say "measuring beside $commit"
  tests/bench/guard.py --against "$before/build/bin/msprobe" build/bin/msprobe || fail "a command lost speed against $commit"
fi

if [ "$run_torch2" = 1 ]; then
  configure release -DMSPROBE_TESTS=ON
  build_preset release
  tools/dev/test_torch2.sh
fi

if [ "$run_packages" = 1 ]; then
  tools/dev/package.sh --try
fi

if [ "$run_site" = 1 ]; then
  tools/dev/build_site.sh --check
fi

if [ "$run_diagnosis" = 1 ]; then
  configure release -DMSPROBE_TESTS=ON
  build_preset release
  say "planting faults"
  cases=$(mktemp -d)
  trap 'rm -rf "$cases"' EXIT
  for python in /usr/bin/python3 ${MSPROBE_TORCH2_PYTHON:-}; do
    PYTHONPATH=build/python "$python" tests/diagnosis/run.py --seeds 0-999 --cache "$cases" --only-make
  done
  MSPROBE=build/bin/msprobe python3 tests/diagnosis/run.py --cache "$cases" --only-compare --failures
fi

if [ "$run_faults" = 1 ]; then
  configure release -DMSPROBE_TESTS=ON
  build_preset release
  say "making calls into the system fail"
  injected=(build/bin/msprobe "$(find build/tests/faults build/lib -name '*fault_injector.so' | head -1)")
  /usr/bin/python3 tests/faults/sweep.py "${injected[@]}" . || fail "a command does not stand a fault; tests/faults/README.md tells how to run one alone"
  /usr/bin/python3 tests/faults/serve_sweep.py "${injected[@]}" . || fail "the server does not stand a fault"
  /usr/bin/python3 tests/faults/capture_sweep.py "${injected[@]}" build/bin/fault_training || fail "the capture does not stand a fault"
fi

if [ "$run_frameworks" = 1 ]; then
  configure release -DMSPROBE_TESTS=ON
  build_preset release
  say "testing with real frameworks"
  /usr/bin/python3 tests/frameworks/run.py "${frameworks[@]}" \
    || fail "a test with a real framework failed; again, one alone: tests/frameworks/run.py NAME/FILE_test.py"
fi

# Last, so that its summary closes the output.
configure release -DMSPROBE_TESTS=ON
say "building the preset release"
build_preset release
run_ctest build
