#include "src/analysis/accuracy/check/api_lists.h"

#include <algorithm>
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
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kMindSporeTypes = {
    {{"Functional", "ops"},
     {"Tensor", "tensor"},
     {"Mint", "mint.ops"},
     {"MintFunctional", "mint.nn.functional"}}};
// 26.x does not run these any more.
constexpr std::array<std::string_view, 3> kRemovedIn26 = {"ones_like", "empty", "empty_like"};

using ApiSections = std::map<std::string, ApiNames, std::less<>>;

ApiSections ReadSections(std::string_view framework) {
  ApiSections sections;
  const Result<json::ValueTree> tree = json::ParseValueTree(resources::kCheckedApis);
  if (!tree.ok()) {
    return sections;
  }
  tree->ForEachChild(tree->Find(0, framework), [&](uint32_t section) {
    ApiNames& names = sections[std::string((*tree)[section].key)];
    tree->ForEachChild(section, [&](uint32_t item) { names.emplace((*tree)[item].text); });
  });
  return sections;
}

const ApiSections& Sections() {
  static const ApiSections kSections = ReadSections("pytorch");
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

bool IsKnownMindSporeApi(std::string_view type, std::string_view api) {
  static const ApiSections kSections = ReadSections("mindspore");
  const auto known = std::find_if(kMindSporeTypes.begin(), kMindSporeTypes.end(),
                                  [&](const auto& row) { return row.first == type; });
  const auto names =
      known == kMindSporeTypes.end() ? kSections.end() : kSections.find(known->second);
  return names != kSections.end() && names->second.contains(api);
}

}  // namespace msprobe::analysis::accuracy
