#include "src/analysis/monitor/csv2tb/csv2tb.h"

#include <cstdint>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;

TEST(RunCsv2Tb, ALongNameIsNotRepeatedForEachOfItsValues) {
  const test_support::TemporaryFolder scratch;
  constexpr size_t kColumns = 60;
  std::string header = "vpp_stage,name,step";
  std::string values;
  for (size_t i = 0; i < kColumns; ++i) {
    header += fmt::format(",c{}", i);
    values += ",1";
  }
  scratch.Write("run/Dec03_21-34-40-rank0-abcd/actv_0-0.csv",
                fmt::format("{}\n0,short,0{}\n0,{},0{}\n", header, values,
                            std::string(100'000, 'm'), values));
  Csv2TbOptions options;
  options.run = scratch / "run";
  options.output = scratch / "out";
  const Result<Csv2TbResult> result = RunCsv2Tb(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->scalars, kColumns);
  ASSERT_EQ(result->warnings.size(), 1U);
  EXPECT_NE(result->warnings[0].find("left out 1 name"), std::string::npos) << result->warnings[0];
  uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(scratch / "out")) {
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  }
  EXPECT_LT(bytes, size_t{100'000});
}

}  // namespace
}  // namespace msprobe::analysis::monitor
