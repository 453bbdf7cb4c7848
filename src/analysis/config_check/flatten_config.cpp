#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/hyperparameters.h"
#include "src/analysis/config_check/name_budget.h"

namespace msprobe::analysis::config_check::internal {
namespace {

using json::ConfigKind;
using json::ConfigValue;

// The depth of a config is limited where it is read, so recursion is, too.
class Flattener {
 public:
  Flattener(bool compat, size_t bytes) : compat_(compat), names_(bytes) {}

  // Takes what is kept out of `value`: a list may be large.
  Status Walk(const std::string& name, ConfigValue& value, bool top) {
    MSP_RETURN_IF_ERROR(names_.Take(name));
    if (value.kind == ConfigKind::kObject && (compat_ || top || !value.members.empty())) {
      for (auto& [key, member] : value.members) {
        if (compat_ && !top && member.key_kind != ConfigKind::kText) {
          return BadFormatError(
              fmt::format("line {}: the key {} is not a string", member.line, key));
        }
        MSP_RETURN_IF_ERROR(Walk(
            name.empty() ? KeyText(key, member) : fmt::format("{}.{}", name, key), member, false));
      }
      return {};
    }
    if (compat_ && value.kind == ConfigKind::kList) {
      for (ConfigValue& item : value.items) {
        MSP_RETURN_IF_ERROR(Walk(name, item, false));
      }
      return {};
    }
    if (!compat_ || IsKept(value)) {
      parameters_.Set(name, std::move(value));
    }
    return {};
  }

  Parameters& parameters() { return parameters_; }

 private:
  static bool IsKept(const ConfigValue& value) {
    const bool whole_number = value.kind == ConfigKind::kFloat && !value.text.empty() &&
                              value.text.find_first_not_of("+-_0123456789") == std::string::npos;
    return value.kind == ConfigKind::kInt || value.kind == ConfigKind::kBool || whole_number ||
           (value.kind == ConfigKind::kText && !value.is_typed_text);
  }

  // Keys that are no text are spelled as JSON spells them.
  std::string KeyText(const std::string& key, const ConfigValue& member) const {
    if (!compat_ || member.key_kind == ConfigKind::kText) {
      return key;
    }
    if (member.key_kind == ConfigKind::kBool) {
      const char second = static_cast<char>(key.size() > 1 ? key[1] | 0x20 : '\0');
      return key[0] == 't' || key[0] == 'T' || key[0] == 'y' || key[0] == 'Y' || second == 'n'
                 ? "true"
                 : "false";
    }
    return key;
  }

  const bool compat_;
  NameBudget names_;
  Parameters parameters_;
};

}  // namespace

Result<Parameters> FlattenConfig(ConfigValue root, size_t bytes, bool compat) {
  Flattener flattener(compat, bytes);
  if (root.kind != ConfigKind::kNull) {
    MSP_RETURN_IF_ERROR(flattener.Walk({}, root, true));
  }
  return std::move(flattener.parameters());
}

}  // namespace msprobe::analysis::config_check::internal
