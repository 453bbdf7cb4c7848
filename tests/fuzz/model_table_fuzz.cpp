// The table of models and the categories of their tokens.
#include <cstdint>

#include "src/analysis/response_anomaly/judge.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::response_anomaly;
  static const msprobe::fuzz::InputFolder folder;
  const msprobe::Result<ModelTable> models =
      ModelTable::Load(folder.Write("models.json", msprobe::fuzz::TextOf(data, size)), {});
  if (models.ok()) {
    static_cast<void>(models->Find("Qwen2.5-7B"));
  }
  return 0;
}
