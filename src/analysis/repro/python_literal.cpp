#include "src/analysis/repro/python_literal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::analysis::repro {
namespace {

std::string PythonNumber(const Json& number) {
  if (number.is_number_integer()) {
    return number.dump();
  }
  const double value = number.get<double>();
  if (!std::isfinite(value)) {
    return fmt::format("float(\"{}\")", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  }
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

Result<std::string> Items(const Json& list, bool with_gradients) {
  std::string text;
  for (const Json& item : list) {
    MSP_ASSIGN_OR_RETURN(const std::string one, PythonArgument(item, with_gradients));
    text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

Result<std::string> TensorText(const Json& record, bool with_gradients) {
  const auto named = record.find("data_name");
  const std::string file =
      named != record.end() && named->is_string() ? named->get<std::string>() : "-1";
  if (file.empty() || file == "-1") {
    return UnsupportedError("the values of an input were not saved");
  }
  const bool is_float = record["dtype"].get<std::string>().find("float") != std::string::npos;
  const auto wants = record.find("requires_grad");
  const bool wanted = with_gradients && is_float && wants != record.end() && wants->is_boolean() &&
                      wants->get<bool>();
  return fmt::format("load({}, {}, device)", PythonText(file), wanted ? "True" : "False");
}

// {"type": ..., "value": ...}
Result<std::string> TypedText(const Json& record, bool with_gradients) {
  const std::string type = record["type"].get<std::string>();
  const Json value = record.contains("value")    ? record["value"]
                     : record.contains("format") ? record["format"]
                                                 : Json();
  if (type == "ellipsis") {
    return std::string("Ellipsis");
  }
  if (type == "torch.device") {
    return std::string("device");
  }
  if (type == "slice" && value.is_array() && value.size() == 3) {
    MSP_ASSIGN_OR_RETURN(const std::string parts, Items(value, with_gradients));
    return fmt::format("slice({})", parts);
  }
  if (type == "torch.Size" && value.is_array()) {
    MSP_ASSIGN_OR_RETURN(const std::string sizes, Items(value, with_gradients));
    return fmt::format("torch.Size([{}])", sizes);
  }
  constexpr std::string_view kNumpy = "numpy.";
  if (accuracy::IsConstantType(type) && value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text == "None") {
      return std::string("None");
    }
    if (const std::optional<std::string> name = accuracy::ConstantName(type, text)) {
      return "torch." + *name;
    }
  } else if (accuracy::IsPlainType(type) ||
             (type.starts_with(kNumpy) && accuracy::IsNumpyScalar(type.substr(kNumpy.size())))) {
    return PythonArgument(value, with_gradients);
  }
  return UnsupportedError(fmt::format("an argument is a {}", base::Printable(type)));
}

}  // namespace

std::string PythonText(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (byte >= 0x20 && byte < 0x7f) {
      quoted += letter;
    } else {
      return fmt::format(
          "bytes.fromhex(\"{:02x}\").decode(\"utf-8\", \"replace\")",
          fmt::join(reinterpret_cast<const unsigned char*>(text.data()),
                    reinterpret_cast<const unsigned char*>(text.data()) + text.size(), ""));
    }
  }
  return quoted + '"';
}

std::string PythonValue(const Json& value) {
  if (value.is_null()) {
    return "None";
  }
  if (value.is_boolean()) {
    return value.get<bool>() ? "True" : "False";
  }
  if (value.is_string()) {
    return PythonText(value.get<std::string>());
  }
  if (!value.is_structured()) {
    return PythonNumber(value);
  }
  std::string items;
  for (const auto& [key, item] : value.items()) {
    items += (items.empty() ? "" : ", ") +
             (value.is_object() ? PythonText(key) + ": " : std::string()) + PythonValue(item);
  }
  return value.is_object() ? "{" + items + "}" : "[" + items + "]";
}

Result<std::string> PythonArgument(const Json& argument, bool with_gradients) {
  switch (argument.type()) {
    case Json::value_t::null:
      return std::string("None");
    case Json::value_t::boolean:
      return std::string(argument.get<bool>() ? "True" : "False");
    case Json::value_t::string:
      return PythonText(argument.get<std::string>());
    case Json::value_t::array: {
      MSP_ASSIGN_OR_RETURN(const std::string items, Items(argument, with_gradients));
      return "[" + items + "]";
    }
    case Json::value_t::object:
      break;
    default:
      return argument.is_number() ? Result<std::string>(PythonNumber(argument))
                                  : Result<std::string>(UnsupportedError("a value of no type"));
  }
  if (IsTensorRecord(argument)) {
    return TensorText(argument, with_gradients);
  }
  if (argument.contains("type") && argument["type"].is_string()) {
    return TypedText(argument, with_gradients);
  }
  std::string members;
  for (const auto& [key, value] : argument.items()) {
    MSP_ASSIGN_OR_RETURN(const std::string text, PythonArgument(value, with_gradients));
    members += fmt::format("{}{}: {}", members.empty() ? "" : ", ", PythonText(key), text);
  }
  return "{" + members + "}";
}

}  // namespace msprobe::analysis::repro
