// The csv and JSON files beside Ascend's trace. The first byte says which one the input is; the
// others are absent.
#include <array>
#include <cstdint>
#include <string>

#include "src/profile/ascend_text/reader.h"
#include "tests/fuzz/touch_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace profile = msprobe::profile;
  constexpr std::array<std::string_view, 6> kNames = {
      "kernel_details.csv", "operator_memory.csv", "memory_record.csv",
      "op_statistic.csv",   "communication.json",  "profiler_metadata.json"};
  static const msprobe::fuzz::InputFolder folder;
  static const std::filesystem::path trace = folder.Write(
      "trace_view.json",
      R"([{"ph":"X","name":"a","cat":"cpu_op","pid":1,"tid":1,"ts":"1","dur":5},)"
      R"({"ph":"X","name":"Enqueue","cat":"enqueue","pid":1,"tid":1,"ts":"1","dur":1,"args":{"correlation_id":"7"}},)"
      R"({"ph":"X","name":"Dequeue","cat":"dequeue","pid":1,"tid":2,"ts":"2","dur":3,"args":{"correlation_id":"7"}}])");
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  const std::string name(kNames[msprobe::fuzz::TakeChoice(input, kNames.size())]);
  folder.Write(name, input);
  profile::TouchProfile(profile::ReadAscendText(folder.path(), folder.path(), profile::AllNeeds()));
  folder.Remove(name);
  return 0;
}
