// The models that are known by name: the ids that end a response, and what kind of text each token
// of the vocabulary is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::response_anomaly {

// From <name>_<size>.json, {"token id": category}.
class Categories {
 public:
  using Category = uint16_t;
  // Of a token that is not in the table, or beyond the vocabulary.
  static constexpr Category kUnknown = 0;
  static constexpr Category kLatin = 1;       // english_latin
  static constexpr Category kLatinSpace = 2;  // english_latin_space
  static constexpr Category kPunctuation = 3;
  static constexpr Category kWhitespace = 4;

  // `vocabulary_size` as in the name of the file; larger ids are no tokens of the model.
  static Result<Categories> Parse(std::string_view text, int64_t vocabulary_size);

  Category Of(int64_t id) const {
    return id >= 0 && static_cast<uint64_t>(id) < of_id_.size() ? of_id_[static_cast<size_t>(id)]
                                                                : kUnknown;
  }

 private:
  std::vector<Category> of_id_;
};

struct Model {
  std::string name;  // as the table spells it
  std::vector<int64_t> end_ids;
  const Categories* categories = nullptr;  // null: there is no file for it
};

class ModelTable {
 public:
  // Every request looks its model up among all of them.
  static constexpr size_t kMostModels = 4096;

  // No models at all.
  ModelTable() = default;
  // `categories` may be empty: models are then judged without.
  static Result<ModelTable> Load(const std::filesystem::path& models,
                                 const std::filesystem::path& categories);

  // Upper and lower case, '-', '_', '.' and blanks make no difference, and one name may be part of
  // the other; the first in the order of the file counts. Null: not known.
  const Model* Find(std::string_view name) const;
  size_t size() const { return models_.size(); }
  size_t with_categories() const { return categories_.size(); }

 private:
  std::vector<Model> models_;
  std::vector<std::string> plain_names_;
  std::vector<std::unique_ptr<Categories>> categories_;
};

}  // namespace msprobe::analysis::response_anomaly
