// Quantised Hugging Face folders and adapters. The first byte says which file the input is: the
// tensors of the model, its config, the tensors of an adapter, the adapter's config.
#include <cstdint>
#include <string>

#include "tests/fuzz/touch_parameters.h"

namespace {

std::string Safetensors(std::string header, size_t bytes) {
  std::string file(8, '\0');
  while (header.size() % 8 != 0) {
    header.push_back(' ');
  }
  file[0] = static_cast<char>(header.size() & 255U);
  file[1] = static_cast<char>(header.size() >> 8U);
  return file + header + std::string(bytes, '\x3c');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::checkpoint;
  static const msprobe::fuzz::InputFolder folder;
  static const std::filesystem::path model = folder.MakeFolder("model");
  static const std::filesystem::path adapter = folder.MakeFolder("adapter");
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  const size_t choice = msprobe::fuzz::TakeChoice(input, 4);
  const auto content = [&](size_t number, const std::string& whole) {
    return choice == number ? std::string(input) : whole;
  };
  folder.Write("model/model.safetensors",
               content(0, Safetensors(R"({"x.weight":{"dtype":"F8_E4M3","shape":[4,4],)"
                                      R"("data_offsets":[0,16]},"x.weight_scale_inv":{"dtype":)"
                                      R"("F32","shape":[1,1],"data_offsets":[16,20]}})",
                                      20)));
  folder.Write("model/config.json", content(1, R"({"quantization_config": {"quant_method": "fp8",)"
                                               R"("weight_block_size": [128, 128]}})"));
  folder.Write("adapter/adapter_model.safetensors",
               content(2, Safetensors(R"({"base_model.model.x.lora_A.weight":{"dtype":"F32",)"
                                      R"("shape":[1,4],"data_offsets":[0,16]},)"
                                      R"("base_model.model.x.lora_B.weight":{"dtype":"F32",)"
                                      R"("shape":[4,1],"data_offsets":[16,32]}})",
                                      32)));
  folder.Write("adapter/adapter_config.json", content(3, R"({"r": 1, "lora_alpha": 2})"));
  Options options;
  options.allow_missing_ranks = true;
  for (const std::filesystem::path& path :
       {model, std::filesystem::path(model.string() + "+" + adapter.string())}) {
    const msprobe::Result<Checkpoint> checkpoint = OpenCheckpoint(path, options);
    if (checkpoint.ok()) {
      TouchParameters(*checkpoint);
    }
  }
  return 0;
}
