// The table of an isolated run: findings are sorted, and an answer can be made of them.
#include <cstdint>
#include <cstdlib>

#include "src/analysis/isolate/isolate.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace isolate = msprobe::analysis::isolate;
  static const msprobe::fuzz::InputFolder folder;
  folder.Write("isolate.csv", msprobe::fuzz::TextOf(data, size));
  const msprobe::Result<isolate::Verdicts> verdicts = isolate::Run({.output = folder.path()});
  if (verdicts.ok()) {
    if (verdicts->guilty.size() > verdicts->modules ||
        isolate::MakeDocument(*verdicts).verdict.word.empty()) {
      std::abort();
    }
  }
  return 0;
}
