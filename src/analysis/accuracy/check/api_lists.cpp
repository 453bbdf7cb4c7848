#include "src/analysis/accuracy/check/api_lists.h"

#include <array>
#include <map>
#include <set>

#include "src/base/strings.h"
#include "src/json/value_tree.h"

namespace msprobe::resources {
extern const std::string_view kCheckedApis;  // config/captured_apis.json
}

namespace msprobe::analysis::accuracy {
namespace {

using ApiNames = std::set<std::string, std::less<>>;

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {
    {{"Functional", "functional"}, {"Tensor", "tensor"}, {"Torch", "torch"}, {"NPU", "torch_npu"}}};
// 26.x does not run these any more.
constexpr std::array<std::string_view, 3> kRemovedIn26 = {"ones_like", "empty", "empty_like"};

const std::map<std::string, ApiNames, std::less<>>& Sections() {
  static const std::map<std::string, ApiNames, std::less<>> kSections = [] {
    std::map<std::string, ApiNames, std::less<>> sections;
    const Result<json::ValueTree> tree = json::ParseValueTree(resources::kCheckedApis);
    if (!tree.ok()) {
      return sections;
    }
    tree->ForEachChild(tree->Find(0, "pytorch"), [&](uint32_t section) {
      ApiNames& names = sections[std::string((*tree)[section].key)];
      tree->ForEachChild(section, [&](uint32_t item) { names.emplace((*tree)[item].text); });
    });
    return sections;
  }();
  return kSections;
}

}  // namespace

bool IsKnownApi(std::string_view type, std::string_view api, StandardVersion version) {
  for (const auto& [known_type, section] : kTypes) {
    if (known_type == type && type != "NPU") {
      const auto names = Sections().find(section);
      return names != Sections().end() && names->second.contains(api) &&
             !(version == StandardVersion::k26 && type == "Torch" &&
               base::IsOneOf(api, kRemovedIn26));
    }
  }
  return true;
}

bool IsKnownAnywhere(std::string_view api) {
  for (const auto& [type, section] : kTypes) {
    const auto names = Sections().find(section);
    if (names != Sections().end() && names->second.contains(api)) {
      return true;
    }
  }
  return false;
}

}  // namespace msprobe::analysis::accuracy
