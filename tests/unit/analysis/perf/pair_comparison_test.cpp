#include "src/analysis/perf/pair_comparison.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::perf {
namespace {

TEST(ComparePair, OfAnyNumberOfSteps) {
  constexpr int kSteps = 100'000;
  std::string events;
  for (int i = 0; i < kSteps; ++i) {
    events += fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "ts": {}, "dur": 1}},)",
        i, i);
  }
  events +=
      R"({"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "args": {"stream": 7}})";
  const msprobe::test_support::TemporaryFolder folder;
  PairOptions options;
  options.base = folder.Write("trace.json", R"({"traceEvents": [)" + events + "]}");
  options.comparison = options.base;
  base::ThreadPool pool(2);
  const Result<PairComparison> compared = ComparePair(options, pool);
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  EXPECT_TRUE(compared->base_split.has_value());
}

}  // namespace
}  // namespace msprobe::analysis::perf
