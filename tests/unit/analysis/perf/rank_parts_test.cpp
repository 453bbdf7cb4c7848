// Ranks as one process hands them to another; what becomes of parts that are late or damaged is
// tests/unit/base/shared_run_test.cpp.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/perf/perf.h"
#include "src/base/packed.h"
#include "tests/unit/analysis/perf/made_summary.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeRank;
using test_support::MadeRun;

std::string Packed(const std::vector<RankSummary>& ranks) {
  std::string bytes;
  base::Packer pack(bytes);
  pack(ranks);
  return bytes;
}

TEST(RankParts, SayTheSameInAnotherProcess) {
  const std::vector<RankSummary> ranks = {MadeRank(0, 1), MadeRank(2, 3)};
  const std::string bytes = Packed(ranks);
  std::vector<RankSummary> read;
  base::Unpacker unpack(bytes);
  unpack(read);
  ASSERT_TRUE(unpack.Ended());
  EXPECT_EQ(SummaryJson(MadeRun(read), 0), SummaryJson(MadeRun(ranks), 0));
}

TEST(RankParts, ThatAreDamagedAreRefused) {
  const std::string bytes = Packed({MadeRank(0, 1)});
  for (const size_t size : {size_t{10}, bytes.size() / 2, bytes.size() - 1}) {
    std::vector<RankSummary> read;
    base::Unpacker unpack(std::string_view(bytes).substr(0, size));
    unpack(read);
    EXPECT_FALSE(unpack.Ended());
  }
  std::string changed = bytes;
  changed[changed.find('{')] = '[';
  std::vector<RankSummary> read;
  base::Unpacker unpack(changed);
  unpack(read);
  EXPECT_FALSE(unpack.Ended());
}

}  // namespace
}  // namespace msprobe::analysis::perf
