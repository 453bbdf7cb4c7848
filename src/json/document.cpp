#include "src/json/document.h"

#include <cstdint>

#include <nlohmann/json.hpp>

namespace msprobe::json {

void WriteDocument(const nlohmann::ordered_json& document, Writer& writer) {
  using Kind = nlohmann::ordered_json::value_t;
  switch (document.type()) {
    case Kind::object:
      writer.BeginObject();
      WriteMembers(document, writer);
      writer.EndObject();
      return;
    case Kind::array:
      writer.BeginArray();
      for (const nlohmann::ordered_json& item : document) {
        WriteDocument(item, writer);
      }
      writer.EndArray();
      return;
    case Kind::string:
      writer.Text(document.get_ref<const std::string&>());
      return;
    case Kind::boolean:
      writer.Bool(document.get<bool>());
      return;
    case Kind::number_integer:
    case Kind::number_unsigned:
      writer.Int(document.get<int64_t>());
      return;
    case Kind::number_float:
      writer.Float(document.get<double>());
      return;
    case Kind::null:
    case Kind::binary:
    case Kind::discarded:
      writer.Null();
      return;
  }
}

void WriteMembers(const nlohmann::ordered_json& object, Writer& writer) {
  for (const auto& [key, value] : object.items()) {
    writer.Key(key);
    WriteDocument(value, writer);
  }
}

nlohmann::ordered_json NumberOrNull(const std::optional<int64_t>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

std::string DocumentText(const nlohmann::ordered_json& document, int indent,
                         Writer::NonFinite non_finite) {
  std::string text;
  Writer writer(text, indent, non_finite);
  WriteDocument(document, writer);
  return text;
}

}  // namespace msprobe::json
