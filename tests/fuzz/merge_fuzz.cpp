// What merge_result reads: its configuration, and result tables of ranks.
#include <cstdint>
#include <cstdlib>

#include "src/analysis/compare/merge/merge_result.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace merge = msprobe::analysis::compare::merge;
  static const msprobe::fuzz::InputFolder folder;
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  static_cast<void>(merge::ParseRankFileName(input));
  if (msprobe::fuzz::TakeChoice(input, 2) == 0) {
    const msprobe::Result<merge::MergeConfig> config =
        merge::LoadMergeConfig(folder.Write("config.yaml", input));
    if (config.ok() && config->apis.empty()) {
      std::abort();
    }
    return 0;
  }
  merge::MergeConfig config;
  config.apis = {"Functional.linear.0.forward", "Module.fc"};
  merge::RankFile file;
  file.stamp = "20250101000000";
  file.is_csv = true;
  file.path = folder.Write("compare_result_rank0_20250101000000.csv", input);
  const msprobe::Result<merge::RankRows> rows = merge::ReadRankRows(file, config);
  if (rows.ok() && rows->api_found.size() != config.apis.size()) {
    std::abort();
  }
  return 0;
}
