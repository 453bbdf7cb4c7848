// A pack of config_check, compared with itself.
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "src/analysis/config_check/check.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::config_check;
  static const msprobe::fuzz::InputFolder folder;
  const std::filesystem::path path = folder.Write("pack.zip", msprobe::fuzz::TextOf(data, size));
  static_cast<void>(LooksLikePack(path));
  const msprobe::Result<std::unique_ptr<Pack>> pack = Pack::Open(path, "bench");
  if (!pack.ok()) {
    return 0;
  }
  const PackPair pair = {**pack, **pack};
  const CheckOptions options;
  static_cast<void>(CheckEnv(pair, options).ok());
  static_cast<void>(CheckPip(pair, options).ok());
  static_cast<void>(CheckDataset(pair).ok());
  static_cast<void>(CheckWeights(pair).ok());
  static_cast<void>(CheckHyperparameters(pair).ok());
  static_cast<void>(CheckRandom(pair).ok());
  return 0;
}
