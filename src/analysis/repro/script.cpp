#include "src/analysis/repro/script.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/repro/minimise.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/dump/names.h"
#include "src/reference/operators/operators.h"

namespace msprobe::resources {
extern const std::string_view kReproScript;        // run_call.py.in
extern const std::string_view kReproModuleScript;  // run_module.py.in
extern const std::string_view kReproRanksScript;   // run_ranks.py.in
extern const std::string_view kReproClosedWorld;   // closed_world.py.in
extern const std::string_view kReproCommon;        // run_common.py.in
extern const std::string_view kReproValues;        // run_values.py.in
}  // namespace msprobe::resources

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

namespace {

Result<std::string> Arguments(const Json& values, bool with_gradients) {
  const bool is_list = values.is_array();
  std::string text;
  for (const auto& [key, value] : values.items()) {
    MSP_ASSIGN_OR_RETURN(const std::string one, PythonArgument(value, with_gradients),
                         (is_list ? "argument " : "keyword argument ") + base::Printable(key));
    text += is_list ? fmt::format("\n        {},", one)
                    : fmt::format("\n        {}: {},", PythonText(key), one);
  }
  const std::string_view brackets = is_list ? "[]" : "{}";
  return text.empty() ? std::string(brackets)
                      : fmt::format("{}{}\n    {}", brackets[0], text, brackets[1]);
}

std::string Trimmed(std::string_view text) {
  return std::string(text.substr(0, text.find_last_not_of('\n') + 1));
}

using Marks = std::vector<std::pair<std::string_view, std::string>>;

// With what scripts share, and the marks, which occur in nothing of it.
std::string Filled(std::string_view script, const Marks& marks) {
  std::string text =
      base::ReplaceFirst(std::string(script), "@COMMON@", Trimmed(resources::kReproCommon));
  text = base::ReplaceFirst(std::move(text), "@VALUES@", Trimmed(resources::kReproValues));
  text = base::ReplaceFirst(std::move(text), "@CLOSED@", ClosedWorld());
  for (const auto& [mark, value] : marks) {
    text = base::ReplaceAll(text, mark, value);
  }
  return text;
}

std::string PythonFault(const std::optional<Fault>& fault) {
  return fault ? fmt::format("({}, {}, {}, {})", PythonText(fault->data_name), fault->element,
                             PythonValue(Json(fault->exact)), PythonValue(Json(fault->bound)))
               : "None";
}

std::string ModuleScript(const CapturedCall& call, const std::optional<Fault>& fault) {
  const dump::EntryName name = dump::ParseEntryName(call.name);
  std::string gradients = "None";
  for (const auto& [entry, value] : call.entries.items()) {
    if (dump::ParseEntryName(entry).is_parameters_grad) {
      gradients = PythonText(entry);
    }
  }
  // Names of modules may hold anything: they come last, as literals.
  std::string script = Filled(resources::kReproModuleScript, {});
  for (const auto& [mark, text] : Marks{
           {"@FAULT@", PythonFault(fault)},
           {"@GRADIENTS@", gradients},
           {"@BACKWARD@", call.is_backward() ? PythonText(call.name) : "None"},
           {"@FORWARD@", PythonText(call.forward_name())},
           {"@CLASS@", PythonText(name.class_name)},
       }) {
    // Marks stand in this order, from the last one: what a text holds stands behind it.
    const size_t place = script.find(mark);
    script.replace(place, mark.size(), text);
  }
  return script;
}

}  // namespace

std::string ClosedWorld() {
  Json constants = {{"plain", accuracy::PlainTypes()}};
  for (const std::string_view type : {"torch.dtype", "torch.memory_format", "torch.layout"}) {
    constants[std::string(type)] = accuracy::ConstantsOf(type);
  }
  return base::ReplaceFirst(Trimmed(resources::kReproClosedWorld), "@CONSTANTS@",
                            PythonValue(constants));
}

Result<std::string> FunctionOf(std::string_view entry_name) {
  const dump::EntryName name = dump::ParseEntryName(entry_name);
  if (!name.class_name.empty()) {  // which only modules have: it may hold anything
    return UnsupportedError(
        fmt::format("{} is not named as an API is", base::Printable(entry_name)));
  }
  const std::string_view module = name.kind == "Functional" ? "torch.nn.functional"
                                  : name.kind == "Tensor"   ? "torch.Tensor"
                                  : name.kind == "Torch"    ? "torch"
                                  : name.kind == "NPU"      ? "torch_npu"
                                                            : "";
  if (module.empty() ||
      !accuracy::IsKnownApi(name.kind, name.subject, accuracy::StandardVersion::k811)) {
    return UnsupportedError(fmt::format("{}.{} is none of PyTorch's operators",
                                        base::Printable(name.kind), base::Printable(name.subject)));
  }
  return fmt::format("{}.{}", module, name.subject);
}

std::optional<Fault> FaultOf(const CapturedCall& call, const recheck::CallVerdict& verdict) {
  if (!ReasonAgainst(verdict).empty()) {
    return std::nullopt;
  }
  const recheck::Judgement& worst = *verdict.worst();
  for (const TensorLeaf& leaf : LeavesOf(call)) {
    if (leaf.is_result && leaf.name == worst.tensor && !leaf.data_name.empty()) {
      return Fault{leaf.data_name, worst.index, worst.exact, worst.bound};
    }
  }
  return std::nullopt;
}

Result<std::string> MakeScript(const CapturedCall& call, const std::optional<Fault>& fault) {
  if (call.framework == "mindspore") {
    return UnsupportedError("it is a call of MindSpore");
  }
  if (dump::ParseEntryName(call.name).is_module) {
    return ModuleScript(call, fault);
  }
  MSP_ASSIGN_OR_RETURN(const std::string function, FunctionOf(call.name));
  const Json& forward = call.forward();
  if (!forward.contains("input_args") || !forward["input_args"].is_array()) {
    return UnsupportedError("its record has no list of arguments");
  }
  const bool has_keywords = forward.contains("input_kwargs") && forward["input_kwargs"].is_object();
  MSP_ASSIGN_OR_RETURN(const std::string args,
                       Arguments(forward["input_args"], call.is_backward()));
  MSP_ASSIGN_OR_RETURN(
      const std::string kwargs,
      Arguments(has_keywords ? forward["input_kwargs"] : Json::object(), call.is_backward()));
  // The name is one of our list, with numbers: nothing in it needs to be escaped. Arguments come
  // last, so that nothing in them is taken for a place to fill.
  std::string script = Filled(resources::kReproScript,
                              {{"@NAME@", call.name},
                               {"@FUNCTION@", function},
                               {"@FORWARD@", PythonText(call.forward_name())},
                               {"@BACKWARD@", call.is_backward() ? PythonText(call.name) : "None"},
                               {"@FAULT@", PythonFault(fault)}});
  script = base::ReplaceFirst(script, "@KWARGS@", kwargs);
  return base::ReplaceFirst(script, "@ARGS@", args);
}

Result<std::string> MakeScriptOfRanks(const std::vector<std::pair<int64_t, CapturedCall>>& ranks,
                                      const std::optional<Fault>& fault, int64_t faulty_rank) {
  std::string calls;
  for (const auto& [rank, call] : ranks) {
    const dump::EntryName name = dump::ParseEntryName(call.name);
    if (call.framework == "mindspore") {
      return UnsupportedError("it is a call of MindSpore");
    }
    // The script calls what stands behind the kind: that must be the operator's name, and all of
    // it.
    if (!base::IsOneOf(name.subject, accuracy::Collectives()) ||
        reference::FindOperator(name) == nullptr ||
        reference::PlainOperatorName(name) != name.subject) {
      return UnsupportedError(fmt::format("{} is none of the communications that are known",
                                          base::Printable(name.subject)));
    }
    calls += fmt::format("{}{}: {}", calls.empty() ? "" : ", ", rank, PythonText(call.name));
  }
  std::string script =
      Filled(resources::kReproRanksScript, {{"@COLLECTIVES@", PythonValue(accuracy::Collectives())},
                                            {"@FAULT@", PythonFault(fault)},
                                            {"@FAULTY_RANK@", std::to_string(faulty_rank)}});
  return base::ReplaceFirst(std::move(script), "@CALLS@", "{" + calls + "}");
}

}  // namespace msprobe::analysis::repro
