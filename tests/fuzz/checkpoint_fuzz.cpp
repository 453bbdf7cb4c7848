// Checkpoints that are folders: Hugging Face's index and config.json, and the states of DeepSpeed's
// ZeRO 3. The first byte says which file the input is; the others are whole.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/fuzz/touch_parameters.h"

namespace {

// {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
std::string SmallSafetensors() {
  std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(8, '\x3f');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::checkpoint;
  static const msprobe::fuzz::InputFolder folder;
  static const std::filesystem::path shards = folder.MakeFolder("shards");
  static const std::filesystem::path single = folder.MakeFolder("single");
  static const std::filesystem::path zero = folder.MakeFolder("zero");
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  const size_t choice = msprobe::fuzz::TakeChoice(input, 5);
  const auto content = [&](size_t number, std::string_view whole) {
    return choice == number ? input : whole;
  };
  folder.Write("shards/model.safetensors.index.json",
               content(0, R"({"weight_map": {"w": "model-00001-of-00001.safetensors"}})"));
  folder.Write("shards/config.json",
               content(1, R"({"model_type": "llama", "num_hidden_layers": 2})"));
  folder.Write("shards/model-00001-of-00001.safetensors", content(2, SmallSafetensors()));
  folder.Write("single/model.pt", input);
  // One file may hold what DeepSpeed keeps in two.
  folder.Write("zero/zero_pp_rank_0_mp_rank_00_model_states.pt", input);
  folder.Write("zero/zero_pp_rank_0_mp_rank_00_optim_states.pt", input);
  Options options;
  options.optimizer = true;
  options.allow_missing_ranks = size % 2 == 0;
  for (const std::filesystem::path& path : {shards, single / "model.pt", zero}) {
    if (path == shards || choice == (path == zero ? 4U : 3U)) {
      const msprobe::Result<Checkpoint> checkpoint = OpenCheckpoint(path, options);
      if (checkpoint.ok()) {
        TouchParameters(*checkpoint);
      }
    }
  }
  return 0;
}
