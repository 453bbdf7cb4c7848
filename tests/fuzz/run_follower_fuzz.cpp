// `monitor top`: a table that grows between two looks, at the byte that the first one tells.
#include <cstdint>

#include "src/analysis/monitor/top/run_follower.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msprobe::analysis::monitor::RunFollower;
  static const msprobe::fuzz::InputFolder folder;
  static const std::filesystem::path run = folder.MakeFolder("Jan01_00-00-00-rank0-abcdef");
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  const size_t first = msprobe::fuzz::TakeChoice(input, 256);
  msprobe::analysis::monitor::FollowOptions options;
  options.root = folder.path();
  RunFollower follower(options);
  const RunFollower::Clock::time_point begin{};
  folder.Write("Jan01_00-00-00-rank0-abcdef/actv_0-1.csv", input.substr(0, first));
  static_cast<void>(follower.Look(begin).ok());
  folder.Write("Jan01_00-00-00-rank0-abcdef/actv_0-1.csv", input);
  static_cast<void>(follower.Look(begin + std::chrono::seconds(1)).ok());
  follower.Judge("norm");
  static_cast<void>(follower.Look(begin + std::chrono::seconds(2)).ok());
  return 0;
}
