#include "src/reference/exact_results.h"

#include <cmath>

#include <fmt/format.h>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

const Operator* FindFunction(std::string_view function) {
  dump::EntryName name;
  name.kind = "Torch";
  name.subject = function;
  return FindOperator(name);
}

Status CheckCertain(const CapturedTensor& output, const Value& exact) {
  if (exact == nullptr) {
    return UnsupportedError(fmt::format("{} is not recomputed", output.name));
  }
  if (output.value == nullptr) {
    return UnsupportedError(output.problem);
  }
  if (output.value->shape != exact->shape) {
    return UnsupportedError(fmt::format("{} is {} instead of {}", output.name,
                                        ShapeText(output.value->shape), ShapeText(exact->shape)));
  }
  const bool is_float = IsFloat(output.dtype);
  for (size_t i = 0; i < exact->size(); ++i) {
    const double error = exact->error_at(i);
    if (!std::isfinite(exact->value[i]) || !std::isfinite(error)) {
      return UnsupportedError(
          fmt::format("{} has elements of which nothing is known", output.name));
    }
    if (!is_float && error != 0) {
      return UnsupportedError(fmt::format("rounding decides elements of {}", output.name));
    }
  }
  return {};
}

}  // namespace

bool IsKnownFunction(std::string_view function) { return FindFunction(function) != nullptr; }

Result<std::vector<Value>> ExactResults(std::string_view function, const dump::EntryTree& tree,
                                        const TensorSource& tensors, base::ThreadPool& pool) {
  const Operator* operation = FindFunction(function);
  if (operation == nullptr) {
    return UnsupportedError("the operator is not known");
  }
  Call call(tree, tensors);
  const std::vector<CapturedTensor>& outputs = call.outputs();
  if (outputs.empty()) {
    return UnsupportedError("it has no tensor as output");
  }
  const Rounding rounding = Rounding::Of(StorageOf(outputs), operation->rounds == Rounds::kSteps);
  const Arithmetic arithmetic(rounding, pool, false, call.loaded());
  std::vector<Value> results = operation->recompute(call, arithmetic);
  if (call.failed() || !arithmetic.problem().empty()) {
    return UnsupportedError(call.failed() ? call.problem() : arithmetic.problem());
  }
  if (results.size() != outputs.size()) {
    return UnsupportedError(
        fmt::format("it has {} outputs instead of {}", outputs.size(), results.size()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    MSP_RETURN_IF_ERROR(CheckCertain(outputs[i], results[i]));
  }
  return results;
}

}  // namespace msprobe::reference
