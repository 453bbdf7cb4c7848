// The main of every benchmark program: first the roof, then the benchmarks.
#include <cstdio>

#include <benchmark/benchmark.h>

#include "tests/bench/roof.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  const msprobe::bench::Roof& roof = msprobe::bench::MeasuredRoof();
  std::fprintf(stderr, "memory-read roof: %.1f GB/s on one core, %.1f GB/s on all %u\n",
               roof.one_core_bytes_per_second / 1e9, roof.all_cores_bytes_per_second / 1e9,
               roof.cores);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
