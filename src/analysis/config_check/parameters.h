// Inside of the room: hyperparameters by name, in the order in which they were first seen.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/json/config.h"
#include "src/json/writer.h"

namespace msprobe::analysis::config_check::internal {

class Parameters {
 public:
  // A name that is there keeps its place and gets the new value.
  void Set(const std::string& name, json::ConfigValue value);
  const json::ConfigValue* Find(const std::string& name) const;
  size_t size() const { return object_.members.size(); }
  const json::ConfigValue& object() const { return object_; }
  // One object; nothing is left.
  json::ConfigValue Take();

 private:
  json::ConfigValue object_ = MakeObject();
  std::unordered_map<std::string, size_t> places_;

  static json::ConfigValue MakeObject() {
    json::ConfigValue object;
    object.kind = json::ConfigKind::kObject;
    return object;
  }
};

// "description" of the object that stands for the values which several files give.
inline constexpr std::string_view kSeveralValues = "duplicate_value";

// As JSON.
void WriteParameter(const json::ConfigValue& value, json::Writer& writer);

inline json::ConfigValue TextParameter(std::string text) {
  json::ConfigValue value;
  value.kind = json::ConfigKind::kText;
  value.text = std::move(text);
  return value;
}

// The values that a parameter may have, or has in several places: the Python tool's way to say so.
json::ConfigValue OneOf(std::vector<json::ConfigValue> values);
// The values of such a one; nullptr: it is one value.
const std::vector<json::ConfigValue>* ValuesOf(const json::ConfigValue& value);

inline json::ConfigValue TrueParameter() {
  json::ConfigValue value;
  value.kind = json::ConfigKind::kBool;
  value.boolean = true;
  return value;
}

}  // namespace msprobe::analysis::config_check::internal
