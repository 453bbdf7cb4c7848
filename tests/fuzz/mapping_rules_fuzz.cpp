// The user's rules for names of parameters.
#include <cstdint>
#include <cstdlib>

#include "src/naming/rules.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::naming;
  const msprobe::Result<RuleSet> rules =
      ParseRules(msprobe::fuzz::TextOf(data, size), "rules.yaml");
  if (rules.ok()) {
    for (const Rule& rule : rules->rules) {
      if (rule.from.empty() || rule.to.empty()) {
        std::abort();
      }
    }
  }
  return 0;
}
