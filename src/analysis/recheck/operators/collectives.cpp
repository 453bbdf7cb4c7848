// Communication: results that are made of the inputs of all ranks of a group. Sums may be taken in
// any order and in the type of the tensors; everything else is handed on bit by bit.
#include <algorithm>
#include <cmath>
#include <string>

#include "src/analysis/recheck/operators/arguments.h"
#include "src/analysis/recheck/operators/operators.h"

namespace msprobe::analysis::recheck {
namespace {

// The inputs of all ranks, one behind the other along a new first dim.
Value Stacked(Call& call, const Arithmetic& m, size_t position, std::string_view name) {
  const size_t count = call.PeerCount();
  std::vector<Value> inputs;
  for (size_t peer = 0; peer < count; ++peer) {
    inputs.push_back(call.PeerTensor(peer, position, name));
  }
  if (call.failed() || inputs.empty()) {
    return nullptr;
  }
  Shape shape = inputs[0]->shape;
  if (std::any_of(inputs.begin(), inputs.end(),
                  [&](const Value& input) { return input->shape != shape; })) {
    return call.Fail("the tensors of its ranks have different shapes");
  }
  shape.insert(shape.begin(), static_cast<int64_t>(count));
  if (!m.Affords(shape)) {
    return nullptr;
  }
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int64_t>(i);
  }
  return m.Take(inputs, shape, std::move(indices));
}

// Over the first dim.
Value Reduced(Call& call, const Arithmetic& m, const Value& stacked, const std::string& operation) {
  if (stacked == nullptr) {
    return nullptr;
  }
  if (operation == "SUM") {
    return m.Sum(stacked, {0}, false);
  }
  const auto ranks = static_cast<double>(stacked->shape[0]);
  if (operation == "AVG") {
    return m.Divide(m.Sum(stacked, {0}, false), m.Filled({}, ranks));
  }
  if (operation != "MAX" && operation != "MIN") {
    return call.Fail("this reduction is not recomputed");
  }
  const size_t size = stacked->size() / static_cast<size_t>(stacked->shape[0]);
  std::vector<int64_t> best(size);
  for (size_t i = 0; i < size; ++i) {
    best[i] = static_cast<int64_t>(i);
    for (size_t at = i + size; at < stacked->size(); at += size) {
      const double champion = stacked->value[static_cast<size_t>(best[i])];
      if (operation == "MAX" ? stacked->value[at] > champion : stacked->value[at] < champion) {
        best[i] = static_cast<int64_t>(at);
      }
    }
  }
  return m.Take({stacked}, Shape(stacked->shape.begin() + 1, stacked->shape.end()),
                std::move(best));
}

// "RedOpType.SUM" of PyTorch, "ReduceOp.SUM" and plain "sum" of others.
std::string OperationOf(Call& call, size_t position) {
  std::string text = call.Text(position, "op", "SUM");
  text = text.substr(text.rfind('.') + 1);
  std::transform(text.begin(), text.end(), text.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  return text;
}

// Of a group that the dump does not tell, ranks may be missing: a result that fits is right, and
// one that does not says nothing.
Values OfGroup(Call& call, const Value& result) {
  if (call.failed() || result == nullptr || call.GroupIsTold()) {
    return {result};
  }
  const std::vector<CapturedTensor>& outputs = call.outputs();
  if (outputs.size() != 1 || outputs[0].value == nullptr ||
      outputs[0].value->shape != result->shape) {
    return {call.Fail("its group is not in the dump")};
  }
  for (size_t i = 0; i < result->size(); ++i) {
    const double off = result->value[i] - outputs[0].value->value[i];
    if (!(std::fabs(off) <= 1e-2 * std::fabs(result->value[i]) + 1e-30)) {
      return {call.Fail("its group is not in the dump, and is not all ranks that are")};
    }
  }
  return {result};
}

Values AllReduce(Call& call, const Arithmetic& m) {
  return OfGroup(call, Reduced(call, m, Stacked(call, m, 0, "tensor"), OperationOf(call, 1)));
}

// Inputs one behind the other along the first dim, into one tensor.
Values AllGatherIntoTensor(Call& call, const Arithmetic& m) {
  const Value stacked = Stacked(call, m, 1, "input_tensor");
  if (stacked == nullptr) {
    return {nullptr};
  }
  // The output may be of the gathered shape or of the stacked one.
  const std::vector<CapturedTensor>& outputs = call.outputs();
  if (outputs.size() != 1 || outputs[0].value == nullptr ||
      outputs[0].value->size() != stacked->size()) {
    return {call.Fail("its output is not what its ranks gave")};
  }
  return {m.Reshape(stacked, outputs[0].value->shape)};
}

// Of the sum of all ranks' inputs, the part of this rank.
Values ReduceScatterTensor(Call& call, const Arithmetic& m) {
  const Value sum = Reduced(call, m, Stacked(call, m, 1, "input"), OperationOf(call, 2));
  if (sum == nullptr) {
    return {nullptr};
  }
  const auto ranks = static_cast<int64_t>(call.PeerCount());
  if (sum->shape.empty() || ranks == 0 || sum->shape[0] % ranks != 0) {
    return {call.Fail("its input does not divide among its ranks")};
  }
  Shape shape = sum->shape;
  shape[0] /= ranks;
  const int64_t size = ElementCount(shape);
  std::vector<int64_t> indices(static_cast<size_t>(size));
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int64_t>(call.OwnPlace()) * size + static_cast<int64_t>(i);
  }
  const Value part = m.Take({sum}, shape, std::move(indices));
  return call.GroupIsTold() ? Values{part} : OfGroup(call, part);
}

}  // namespace

OperatorList CollectiveOperators() {
  return {
      {"all_reduce", AllReduce, Rounds::kSteps},
      {"all_gather_into_tensor _all_gather_base", AllGatherIntoTensor},
      {"reduce_scatter_tensor _reduce_scatter_base", ReduceScatterTensor, Rounds::kSteps},
  };
}

}  // namespace msprobe::analysis::recheck
