#include <cctype>
#include <map>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

using Names = std::map<std::string, const Operator*, std::less<>>;

void AddNames(const std::vector<Operator>& operators, Names& names) {
  for (const Operator& operation : operators) {
    std::string_view rest = operation.names;
    while (!rest.empty()) {
      const size_t end = rest.find(' ');
      names.emplace(std::string(rest.substr(0, end)), &operation);
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
  }
}

std::vector<Operator> Functions() {
  std::vector<Operator> all;
  for (const OperatorList& family :
       {ElementwiseOperators(),   ComparisonOperators(),    ActivationOperators(),
        ContractionOperators(),   NormalizationOperators(), ReductionOperators(),
        LossOperators(),          MoveOperators(),          CopyOperators(),
        CreationOperators(),      ConvolutionOperators(),   PoolingOperators(),
        InterpolationOperators(), SelectionOperators(),     AttentionOperators(),
        MomentOperators(),        ListOperators(),          OptimizerOperators(),
        EliminationOperators(),   TriangularOperators()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace

const std::vector<Operator>& AllOperators() {
  static const std::vector<Operator> all = Functions();
  return all;
}

std::string PlainOperatorName(const dump::EntryName& call) {
  std::string_view name = call.subject;
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    name.remove_prefix(dot + 1);
  }
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4) {
    name = name.substr(2, name.size() - 4);
  }
  while (name.size() > 1 && name.ends_with("_")) {
    name.remove_suffix(1);
  }
  std::string plain;
  for (const char letter : name) {
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return plain;
}

const Operator* FindOperator(const dump::EntryName& call) {
  static const std::vector<Operator> modules = ModuleOperators();
  static const std::vector<Operator> collectives = CollectiveOperators();
  static const std::vector<Operator> messages = PointToPointOperators();
  static const Names module_names = [] {
    Names names;
    AddNames(modules, names);
    return names;
  }();
  static const Names collective_names = [] {
    Names names;
    AddNames(collectives, names);
    AddNames(messages, names);
    return names;
  }();
  static const Names function_names = [] {
    Names names;
    AddNames(AllOperators(), names);
    return names;
  }();
  if (call.is_module) {
    const auto found = module_names.find(call.class_name);
    return found == module_names.end() ? nullptr : found->second;
  }
  // gather and scatter mean something else among ranks.
  const Names& names = call.kind == "Distributed" ? collective_names : function_names;
  const auto found = names.find(PlainOperatorName(call));
  return found == names.end() ? nullptr : found->second;
}

}  // namespace msprobe::reference
