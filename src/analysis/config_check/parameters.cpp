#include "src/analysis/config_check/parameters.h"

#include <string_view>

namespace msprobe::analysis::config_check::internal {

void Parameters::Set(const std::string& name, json::ConfigValue value) {
  const auto [place, is_new] = places_.emplace(name, object_.members.size());
  if (is_new) {
    object_.members.emplace_back(name, std::move(value));
  } else {
    object_.members[place->second].second = std::move(value);
  }
}

const json::ConfigValue* Parameters::Find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &object_.members[place->second].second;
}

json::ConfigValue Parameters::Take() {
  places_.clear();
  return std::exchange(object_, MakeObject());
}

json::ConfigValue OneOf(std::vector<json::ConfigValue> values) {
  json::ConfigValue list;
  list.kind = json::ConfigKind::kList;
  list.items = std::move(values);
  json::ConfigValue result;
  result.kind = json::ConfigKind::kObject;
  result.members.emplace_back("description", TextParameter(std::string(kSeveralValues)));
  result.members.emplace_back("values", std::move(list));
  return result;
}

const std::vector<json::ConfigValue>* ValuesOf(const json::ConfigValue& value) {
  const json::ConfigValue* description = value.Find("description");
  const json::ConfigValue* values = value.Find("values");
  const bool is_one = value.kind == json::ConfigKind::kObject && value.members.size() == 2 &&
                      description != nullptr && description->kind == json::ConfigKind::kText &&
                      description->text == kSeveralValues && values != nullptr;
  return is_one ? &values->items : nullptr;
}

void WriteParameter(const json::ConfigValue& value, json::Writer& writer) {
  switch (value.kind) {
    case json::ConfigKind::kNull:
      writer.Null();
      break;
    case json::ConfigKind::kBool:
      writer.Bool(value.boolean);
      break;
    case json::ConfigKind::kInt:
      writer.Int(value.integer);
      break;
    case json::ConfigKind::kFloat:
      // Integers beyond 64 bits keep their digits.
      if (!value.text.empty() && value.text.size() > 1 &&
          value.text.find_first_not_of("0123456789", value.text[0] == '-' ? 1 : 0) ==
              std::string::npos &&
          value.text[value.text[0] == '-' ? 1 : 0] != '0') {
        writer.Raw(value.text);
      } else {
        writer.Float(value.number);
      }
      break;
    case json::ConfigKind::kText:
      writer.Text(value.text);
      break;
    case json::ConfigKind::kList:
      writer.BeginArray();
      for (const json::ConfigValue& item : value.items) {
        WriteParameter(item, writer);
      }
      writer.EndArray();
      break;
    case json::ConfigKind::kObject:
      writer.BeginObject();
      for (const auto& [key, member] : value.members) {
        writer.Key(key);
        WriteParameter(member, writer);
      }
      writer.EndObject();
      break;
  }
}

}  // namespace msprobe::analysis::config_check::internal
