#include "src/analysis/recheck/recompute.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/recheck/arithmetic/gradients.h"
#include "src/analysis/recheck/operators/operators.h"
#include "src/dump/names.h"

namespace msprobe::analysis::recheck {
namespace {

CallVerdict NotCheckable(std::string operation, std::string reason) {
  CallVerdict verdict;
  verdict.operation = std::move(operation);
  verdict.reason = std::move(reason);
  return verdict;
}

// The type that results are stored in: of the first floating tensor.
DType StorageOf(const std::vector<CapturedTensor>& tensors, DType otherwise) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [](const CapturedTensor& tensor) {
    return IsFloat(tensor.dtype);
  });
  return found == tensors.end() ? otherwise : found->dtype;
}

void Conclude(CallVerdict& verdict) {
  bool any = false;
  for (const Judgement& tensor : verdict.tensors) {
    if (tensor.verdict == Verdict::kNotCheckable) {
      if (verdict.reason.empty()) {
        verdict.reason = tensor.reason;
      }
      continue;
    }
    any = true;
    verdict.ratio = std::max(verdict.ratio, tensor.ratio);
    if (tensor.verdict == Verdict::kBeyond) {
      verdict.verdict = Verdict::kBeyond;
    }
  }
  if (any && verdict.verdict != Verdict::kBeyond) {
    verdict.verdict = Verdict::kWithin;
  }
  if (verdict.verdict == Verdict::kWithin) {
    verdict.reason.clear();
  } else if (verdict.verdict == Verdict::kBeyond) {
    verdict.reason = verdict.worst()->reason;
  } else if (verdict.reason.empty()) {
    verdict.reason = "it has no tensor that can be recomputed";
  }
}

Judgement BestOf(const CapturedTensor& captured, const std::vector<Value>& candidates,
                 const Rounding& rounding) {
  Judgement best;
  best.tensor = captured.name;
  best.reason = captured.value == nullptr
                    ? captured.problem
                    : "it is the gradient of an inner step that is not recomputed";
  if (captured.value == nullptr) {
    return best;
  }
  for (const Value& candidate : candidates) {
    if (candidate->shape != captured.value->shape) {
      continue;
    }
    Judgement judgement = Judge(captured, candidate, rounding);
    if (judgement.verdict != Verdict::kNotCheckable &&
        (best.verdict == Verdict::kNotCheckable || judgement.ratio < best.ratio)) {
      best = std::move(judgement);
    }
  }
  return best;
}

// Gradients of the steps of a call that a hook may have seen.
std::vector<Value> Candidates(const Arithmetic& arithmetic, const Gradients& gradients,
                              const std::vector<Value>& incoming, const CapturedTensor& captured) {
  std::vector<Value> candidates;
  const auto add = [&](const Value& gradient) {
    if (gradient == nullptr || captured.value == nullptr ||
        gradient->size() != captured.value->size()) {
      return;
    }
    const Shape& wanted = captured.value->shape;
    if (gradient->shape == wanted) {
      candidates.push_back(gradient);
    } else {
      // The node worked on a view: other dims, or a transposed matrix.
      candidates.push_back(arithmetic.Reshape(gradient, wanted));
    }
    if (gradient->shape.size() == 2 && wanted.size() == 2) {
      candidates.push_back(arithmetic.Reshape(arithmetic.Permute(gradient, {1, 0}), wanted));
    }
  };
  for (const Tensor* tensor : gradients.order) {
    add(gradients.of.at(tensor));
  }
  for (const Value& gradient : gradients.unreduced) {
    add(gradient);
  }
  for (const Value& gradient : incoming) {
    if (gradient != nullptr && captured.value != nullptr &&
        gradient->shape != captured.value->shape) {
      add(gradient);
    }
  }
  return candidates;
}

}  // namespace

const Judgement* CallVerdict::worst() const {
  const Judgement* worst = nullptr;
  for (const Judgement& tensor : tensors) {
    if (tensor.verdict != Verdict::kNotCheckable &&
        (worst == nullptr || tensor.ratio > worst->ratio)) {
      worst = &tensor;
    }
  }
  return worst;
}

CallVerdict RecheckForward(const RecordedCall& recorded, base::ThreadPool& pool) {
  const dump::EntryName name = dump::ParseEntryName(recorded.name);
  const Operator* operation = FindOperator(name);
  std::string plain = name.is_module ? std::string(name.class_name) : PlainOperatorName(name);
  if (operation == nullptr) {
    return NotCheckable(
        {}, name.is_module ? "modules of this class are not known" : "the operator is not known");
  }
  Call call(*recorded.forward, recorded.tensor_folder);
  if (call.outputs().empty()) {
    return NotCheckable(std::move(plain), "it has no tensor as output");
  }
  const Rounding rounding = Rounding::Of(StorageOf(call.outputs(), call.outputs()[0].dtype),
                                         operation->rounds == Rounds::kSteps);
  const Arithmetic arithmetic(rounding, pool, false);
  const Values results = operation->recompute(call, arithmetic);
  if (call.failed() || !arithmetic.problem().empty()) {
    return NotCheckable(std::move(plain), call.failed() ? call.problem() : arithmetic.problem());
  }
  CallVerdict verdict;
  verdict.operation = std::move(plain);
  if (results.size() > call.outputs().size()) {
    verdict.verdict = Verdict::kBeyond;
    Judgement judgement;
    judgement.verdict = Verdict::kBeyond;
    judgement.ratio = std::numeric_limits<double>::infinity();
    judgement.tensor = "output";
    judgement.reason =
        fmt::format("it has {} outputs instead of {}", call.outputs().size(), results.size());
    verdict.tensors.push_back(std::move(judgement));
  }
  for (size_t i = 0; i < results.size() && i < call.outputs().size(); ++i) {
    if (results[i] != nullptr) {
      verdict.tensors.push_back(Judge(call.outputs()[i], results[i], rounding));
    }
  }
  Conclude(verdict);
  return verdict;
}

CallVerdict RecheckBackward(const RecordedCall& recorded, base::ThreadPool& pool) {
  const dump::EntryName name = dump::ParseEntryName(recorded.name);
  const Operator* operation = FindOperator(name);
  std::string plain = name.is_module ? std::string(name.class_name) : PlainOperatorName(name);
  if (operation == nullptr) {
    return NotCheckable(
        {}, name.is_module ? "modules of this class are not known" : "the operator is not known");
  }
  if (recorded.forward == nullptr) {
    return NotCheckable(std::move(plain), "its forward call is not in the dump");
  }
  Call call(*recorded.forward, recorded.tensor_folder);
  call.WantGradients();
  const std::vector<CapturedTensor> incoming = call.ReadAll(*recorded.backward, "input");
  std::vector<CapturedTensor> outgoing = call.ReadAll(*recorded.backward, "output");
  if (recorded.parameters_grad != nullptr) {
    recorded.parameters_grad->ForEachChild(0, [&](uint32_t child) {
      const std::string_view key = (*recorded.parameters_grad)[child].key;
      for (CapturedTensor& tensor : call.ReadAll(*recorded.parameters_grad, key)) {
        tensor.name = fmt::format("parameters_grad.{}", key);
        outgoing.push_back(std::move(tensor));
      }
    });
  }
  if (outgoing.empty()) {
    return NotCheckable(std::move(plain), "no gradient goes out of it");
  }
  const Rounding rounding =
      Rounding::Of(StorageOf(outgoing, outgoing[0].dtype), operation->rounds == Rounds::kSteps);
  const Arithmetic arithmetic(rounding, pool, true);
  const Values results = operation->recompute(call, arithmetic);
  if (call.failed() || !arithmetic.problem().empty()) {
    return NotCheckable(std::move(plain), call.failed() ? call.problem() : arithmetic.problem());
  }
  Values seeds(results.size());
  for (const CapturedTensor& gradient : incoming) {
    if (gradient.value == nullptr) {
      return NotCheckable(std::move(plain), gradient.problem);
    }
    if (gradient.position >= seeds.size() || results[gradient.position] == nullptr) {
      return NotCheckable(std::move(plain), "a gradient comes in for an output that is not known");
    }
    if (gradient.value->shape != results[gradient.position]->shape) {
      return NotCheckable(std::move(plain), "a gradient that comes in has not the output's shape");
    }
    seeds[gradient.position] = gradient.value;
  }
  const Gradients gradients = FollowGradients(arithmetic, results, seeds);
  if (!arithmetic.problem().empty()) {
    return NotCheckable(std::move(plain), arithmetic.problem());
  }
  CallVerdict verdict;
  verdict.operation = std::move(plain);
  for (const CapturedTensor& captured : outgoing) {
    verdict.tensors.push_back(
        BestOf(captured, Candidates(arithmetic, gradients, seeds, captured), rounding));
  }
  Conclude(verdict);
  return verdict;
}

}  // namespace msprobe::analysis::recheck
