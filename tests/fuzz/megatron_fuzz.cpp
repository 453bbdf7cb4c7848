// A Megatron checkpoint of which two ranks are the same hostile file, by every option.
#include <cstdint>
#include <cstdlib>

#include "src/checkpoint/megatron/reader.h"
#include "tests/fuzz/touch_parameters.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::checkpoint;
  static const msprobe::fuzz::InputFolder folder;
  static const bool made = [] {
    folder.MakeFolder("mp_rank_00_000");
    folder.MakeFolder("mp_rank_00_001");
    return true;
  }();
  static_cast<void>(made);
  const std::string_view file = msprobe::fuzz::TextOf(data, size);
  folder.Write("mp_rank_00_000/model_optim_rng.pt", file);
  folder.Write("mp_rank_00_001/model_optim_rng.pt", file);
  for (const bool compatible : {false, true}) {
    Options options;
    options.optimizer = true;
    options.compatible_merge = compatible;
    const msprobe::Result<Checkpoint> checkpoint = OpenMegatron(folder.path(), options);
    if (checkpoint.ok()) {
      TouchParameters(*checkpoint);
    }
  }
  return 0;
}
