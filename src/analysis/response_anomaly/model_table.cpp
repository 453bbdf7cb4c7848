#include "src/analysis/response_anomaly/model_table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::response_anomaly {
namespace {

using json::ConfigKind;
using json::ConfigValue;

// Vocabularies in use have a quarter of a million entries.
constexpr int64_t kLargestVocabulary = int64_t{1} << 24U;
constexpr uint64_t kLargestTable = uint64_t{1} << 30U;

std::string PlainName(std::string_view name) {
  std::string plain = base::AsciiLower(name);
  plain.erase(std::remove_if(plain.begin(), plain.end(),
                             [](char c) { return c == '-' || c == '_' || c == '.' || c == ' '; }),
              plain.end());
  return plain;
}

Result<std::vector<int64_t>> EndIds(const json::Config& config, const ConfigValue& value) {
  std::vector<int64_t> ids;
  if (value.kind == ConfigKind::kInt) {
    ids.push_back(value.integer);
    return ids;
  }
  if (value.kind == ConfigKind::kList) {
    for (const ConfigValue& item : value.items) {
      if (item.kind != ConfigKind::kInt) {
        return config.ErrorAt(item, "eos", "must hold token ids");
      }
      ids.push_back(item.integer);
    }
    return ids;
  }
  return config.ErrorAt(value, "eos", "must be a token id, or a list of them");
}

// <name>_<digits>.json: the digits.
std::optional<int64_t> VocabularySize(std::string_view file, std::string_view model) {
  constexpr std::string_view kEnding = ".json";
  if (!file.starts_with(model) || !file.ends_with(kEnding) ||
      file.size() < model.size() + kEnding.size() + 2 || file[model.size()] != '_') {
    return std::nullopt;
  }
  file.remove_prefix(model.size() + 1);
  file.remove_suffix(kEnding.size());
  if (!std::all_of(file.begin(), file.end(), base::IsDigit)) {
    return std::nullopt;
  }
  return base::ParseInt(file);
}

}  // namespace

Result<Categories> Categories::Parse(std::string_view text, int64_t vocabulary_size) {
  if (vocabulary_size > kLargestVocabulary) {
    return BadFormatError(fmt::format("a vocabulary of {} tokens", vocabulary_size));
  }
  MSP_ASSIGN_OR_RETURN(const json::ValueTree tree, json::ParseValueTree(text));
  if (tree[0].kind != json::ValueKind::kObject) {
    return BadFormatError("must hold an object, {\"token id\": \"category\"}");
  }
  std::map<std::string, Category, std::less<>> numbers = {{"english_latin", kLatin},
                                                          {"english_latin_space", kLatinSpace},
                                                          {"punctuation", kPunctuation},
                                                          {"whitespace", kWhitespace}};
  Categories categories;
  Status status;
  tree.ForEachChild(0, [&](uint32_t child) {
    const json::ValueNode& node = tree[child];
    const std::optional<int64_t> id = base::ParseInt(node.key);
    if (!status.ok()) {
      return;
    }
    if (!id || *id < 0 || node.kind != json::ValueKind::kText) {
      status = BadFormatError(fmt::format("\"{}\": must be a token id with the name of a category",
                                          base::Printable(node.key)));
      return;
    }
    if (*id > vocabulary_size) {
      return;
    }
    const auto next = static_cast<Category>(numbers.size() + 1);
    const auto found = numbers.emplace(std::string(node.text), next).first;
    if (found->second == std::numeric_limits<Category>::max()) {
      status = BadFormatError("more than 65,534 categories");
      return;
    }
    const auto index = static_cast<size_t>(*id);
    if (categories.of_id_.size() <= index) {
      categories.of_id_.resize(index + 1, kUnknown);
    }
    categories.of_id_[index] = found->second;
  });
  MSP_RETURN_IF_ERROR(std::move(status));
  return categories;
}

Result<ModelTable> ModelTable::Load(const std::filesystem::path& models,
                                    const std::filesystem::path& categories) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(models));
  if (config.root.kind != ConfigKind::kObject) {
    return config.ErrorAt(config.root, "", "must hold an object with a member per model");
  }
  if (config.root.members.size() > kMostModels) {
    return config.ErrorAt(
        config.root, "",
        fmt::format("has {} models, more than {}", config.root.members.size(), kMostModels));
  }
  std::vector<std::string> files;
  if (!categories.empty()) {
    MSP_ASSIGN_OR_RETURN(files, base::ListFolder(categories));
  }
  ModelTable table;
  for (const auto& [name, value] : config.root.members) {
    const ConfigValue* end = value.kind == ConfigKind::kObject ? value.Find("eos") : nullptr;
    if (end == nullptr) {
      return config.ErrorAt(value, name, "must be an object with the key \"eos\"");
    }
    Model model;
    model.name = name;
    MSP_ASSIGN_OR_RETURN(model.end_ids, EndIds(config, *end));
    for (const std::string& file : files) {
      const std::optional<int64_t> size = VocabularySize(file, name);
      if (!size) {
        continue;
      }
      const std::filesystem::path path = categories / file;
      MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLargestTable));
      MSP_ASSIGN_OR_RETURN(Categories parsed, Categories::Parse(text, *size), path.string());
      table.categories_.push_back(std::make_unique<Categories>(std::move(parsed)));
      model.categories = table.categories_.back().get();
      break;
    }
    table.plain_names_.push_back(PlainName(name));
    table.models_.push_back(std::move(model));
  }
  return table;
}

const Model* ModelTable::Find(std::string_view name) const {
  const std::string plain = PlainName(name);
  if (plain.empty()) {
    return nullptr;
  }
  for (size_t i = 0; i < models_.size(); ++i) {
    const std::string& known = plain_names_[i];
    if (!known.empty() &&
        (plain.find(known) != std::string::npos || known.find(plain) != std::string::npos)) {
      return &models_[i];
    }
  }
  return nullptr;
}

}  // namespace msprobe::analysis::response_anomaly
