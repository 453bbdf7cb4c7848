#include "src/analysis/accuracy/check/api_lists.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/entry_tree.h"

namespace msprobe::resources {
extern const std::string_view kCheckedApis;    // config/captured_apis.json
extern const std::string_view kAtenOperators;  // config/aten_operators.json
}  // namespace msprobe::resources

namespace msprobe::analysis::accuracy {
namespace {

using ApiNames = std::set<std::string, std::less<>>;
using TypeSections = std::span<const std::pair<std::string_view, std::string_view>>;

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTypes = {
    {{"Functional", "functional"},
     {"Tensor", "tensor"},
     {"Torch", "torch"},
     {"NPU", "torch_npu"},
     {"Aten", "operators"}}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kMindSporeTypes = {
    {{"Functional", "ops"},
     {"Tensor", "tensor"},
     {"Mint", "mint.ops"},
     {"MintFunctional", "mint.nn.functional"}}};
// Captured, and never run by the word of a file.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kNeverNamed = {
    {{"map_", "it takes a function"},
     {"map2_", "it takes a function"},
     {"cond", "it takes functions"},
     {"derivative", "it takes a function"},
     {"jet", "it takes a function"},
     {"absolute_import", "it is not an operator"},
     {"functional", "it is a module"},
     {"linalg", "it is a module"},
     {"nn", "it is a module"},
     {"special", "it is a module"}}};
// 26.x does not run these any more.
constexpr std::array<std::string_view, 3> kRemovedIn26 = {"ones_like", "empty", "empty_like"};

// Constants of torch, under all names that they have.
struct Constants {
  std::string_view type;
  std::vector<std::string_view> names;
};
const std::vector<Constants>& KnownConstants() {
  static const std::vector<Constants> kConstants = {
      {"torch.dtype", {"uint8",          "int8",
                       "int16",          "short",
                       "int32",          "int",
                       "int64",          "long",
                       "uint16",         "uint32",
                       "uint64",         "float16",
                       "half",           "bfloat16",
                       "float32",        "float",
                       "float64",        "double",
                       "complex32",      "chalf",
                       "complex64",      "cfloat",
                       "complex128",     "cdouble",
                       "bool",           "qint8",
                       "quint8",         "qint32",
                       "quint4x2",       "quint2x4",
                       "float8_e4m3fn",  "float8_e4m3fnuz",
                       "float8_e5m2",    "float8_e5m2fnuz",
                       "float8_e8m0fnu", "float4_e2m1fn_x2"}},
      {"torch.memory_format",
       {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"}},
      {"torch.layout",
       {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged",
        "_mkldnn"}},
      {"numpy",
       {"bool_", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "float128", "complex64", "complex128", "complex256"}}};
  return kConstants;
}

constexpr std::string_view kMindSporeDType = "mindspore.dtype";

using ApiSections = std::map<std::string, ApiNames, std::less<>>;

void AddNames(const dump::EntryTree& tree, uint32_t section, ApiSections& sections) {
  ApiNames& names = sections[std::string(tree[section].key)];
  tree.ForEachChild(section, [&](uint32_t item) { names.emplace(tree[item].text); });
}

ApiSections ReadSections(std::string_view framework) {
  ApiSections sections;
  const Result<dump::EntryTree> tree = dump::ParseEntry(resources::kCheckedApis);
  if (tree.ok()) {
    tree->ForEachChild(tree->Find(0, framework),
                       [&](uint32_t section) { AddNames(*tree, section, sections); });
  }
  for (auto& [section, names] : sections) {
    for (const auto& [name, why] : kNeverNamed) {
      names.erase(std::string(name));
    }
  }
  return sections;
}

// The APIs of PyTorch, including Aten's.
const ApiSections& Sections() {
  static const ApiSections kSections = [] {
    ApiSections sections = ReadSections("pytorch");
    const Result<dump::EntryTree> aten = dump::ParseEntry(resources::kAtenOperators);
    if (aten.ok()) {
      AddNames(*aten, aten->Find(0, "operators"), sections);
    }
    return sections;
  }();
  return kSections;
}

// With the methods that its checker runs.
const ApiSections& MindSporeSections() {
  static const ApiSections kSections = [] {
    ApiSections sections = ReadSections("mindspore");
    for (const std::string& name : Standards::BuiltIn().apis().mindspore_tensor) {
      sections["tensor"].insert(name);
    }
    return sections;
  }();
  return kSections;
}

const ApiNames* NamesOf(TypeSections types, const ApiSections& sections, std::string_view type) {
  static const ApiNames kNone;
  const auto known =
      std::find_if(types.begin(), types.end(), [&](const auto& row) { return row.first == type; });
  if (known == types.end()) {
    return nullptr;
  }
  const auto names = sections.find(known->second);
  return names == sections.end() ? &kNone : &names->second;
}

}  // namespace

bool IsKnownApi(std::string_view type, std::string_view api, StandardVersion version) {
  const ApiNames* const names = NamesOf(kTypes, Sections(), type);
  return names == nullptr ||
         (names->contains(api) && !(version == StandardVersion::k26 && type == "Torch" &&
                                    base::IsOneOf(api, kRemovedIn26)));
}

bool IsKnownAnywhere(std::string_view api) {
  return std::any_of(kTypes.begin(), kTypes.end(), [&](const auto& row) {
    return row.first != "Aten" && NamesOf(kTypes, Sections(), row.first)->contains(api);
  });
}

bool IsKnownMindSporeApi(std::string_view type, std::string_view api) {
  const ApiNames* const names = NamesOf(kMindSporeTypes, MindSporeSections(), type);
  return names != nullptr && names->contains(api);
}

std::string WhyNotNamed(std::string_view type, std::string_view api, StandardVersion version) {
  for (const auto& [name, why] : kNeverNamed) {
    if (name == api) {
      return fmt::format("{}.{} is not run: {}", type, api, why);
    }
  }
  if (type == "NPU") {
    return fmt::format("There is not bench function {}", api);
  }
  const bool is_plain = api.find('.') == std::string_view::npos &&
                        (type == "Functional" || type == "Tensor" || type == "Torch");
  if (is_plain) {  // the words of the Python tool
    return version == StandardVersion::k26 ? "'NoneType' object is not subscriptable"
                                           : "'NoneType' object is not callable";
  }
  return fmt::format("{}.{} is not on the list of operators that a file may name", type, api);
}

const std::vector<std::string_view>& ConstantsOf(std::string_view type) {
  static const std::vector<std::string_view> kNone;
  for (const Constants& known : KnownConstants()) {
    if (known.type == type) {
      return known.names;
    }
  }
  return kNone;
}

bool IsConstantType(std::string_view type) {
  return type == kMindSporeDType || (type != "numpy" && !ConstantsOf(type).empty());
}

std::optional<std::string> ConstantName(std::string_view type, std::string_view value) {
  const bool is_mindspore = type == kMindSporeDType;
  const std::string_view module = is_mindspore ? "mindspore." : "torch.";
  if (value.starts_with(module)) {
    value.remove_prefix(module.size());
  }
  std::string name = is_mindspore ? base::AsciiLower(value) : std::string(value);  // "Float32"
  return base::IsOneOf(name, ConstantsOf(is_mindspore ? "torch.dtype" : type))
             ? std::optional(std::move(name))
             : std::nullopt;
}

bool IsNumpyScalar(std::string_view name) { return base::IsOneOf(name, ConstantsOf("numpy")); }

const std::vector<std::string_view>& PlainTypes() {
  static const std::vector<std::string_view> kPlain = [] {
    std::vector<std::string_view> types = {"int",      "float", "bool",  "str", "complex",
                                           "NoneType", "list",  "tuple", "dict"};
    const std::vector<std::string_view>& scalars = ConstantsOf("numpy");
    types.insert(types.end(), scalars.begin(), scalars.end());
    return types;
  }();
  return kPlain;
}

bool IsPlainType(std::string_view type) { return base::IsOneOf(type, PlainTypes()); }

std::vector<std::string_view> Collectives() {
  const auto names = Sections().find("distributed");
  return names == Sections().end()
             ? std::vector<std::string_view>()
             : std::vector<std::string_view>(names->second.begin(), names->second.end());
}

std::vector<NamedGroup> WorkerVocabulary(Vocabulary vocabulary) {
  std::vector<NamedGroup> groups;
  const auto add = [&groups](TypeSections types, const ApiSections& sections) {
    for (const auto& [type, section] : types) {
      const ApiNames& names = *NamesOf(types, sections, type);
      groups.push_back({type, {names.begin(), names.end()}});
    }
  };
  if (vocabulary == Vocabulary::kMindSpore) {
    add(kMindSporeTypes, MindSporeSections());
  } else {
    add(kTypes, Sections());
  }
  for (const Constants& constants : KnownConstants()) {
    groups.push_back({constants.type, constants.names});
  }
  return groups;
}

}  // namespace msprobe::analysis::accuracy
