#include <utility>

#include "src/reference/arithmetic/arithmetic.h"

namespace msprobe::reference {
namespace {

// Every tensor below the results that wants a gradient, parents in front of children.
std::vector<const Tensor*> ParentsFirst(const std::vector<Value>& results) {
  struct Open {
    const Tensor* tensor;
    size_t next = 0;
  };
  std::vector<const Tensor*> order;
  std::unordered_map<const Tensor*, bool> seen;
  std::vector<Open> open;
  const auto enter = [&](const Value& value) {
    if (value != nullptr && value->wants_gradient && !seen[value.get()]) {
      seen[value.get()] = true;
      open.push_back({value.get()});
    }
  };
  for (const Value& result : results) {
    enter(result);
    while (!open.empty()) {
      const Tensor* tensor = open.back().tensor;
      if (open.back().next < tensor->parents.size()) {
        enter(tensor->parents[open.back().next++]);
      } else {
        order.push_back(tensor);
        open.pop_back();
      }
    }
  }
  return order;
}

}  // namespace

Gradients FollowGradients(const Arithmetic& arithmetic, const std::vector<Value>& results,
                          const std::vector<Value>& gradients) {
  Gradients found;
  const auto add = [&](const Tensor* tensor, const Value& gradient) {
    Value& sum = found.of[tensor];
    sum = sum == nullptr ? gradient : arithmetic.Add(sum, gradient);
  };
  const std::vector<const Tensor*> order = ParentsFirst(results);
  for (size_t i = 0; i < results.size() && i < gradients.size(); ++i) {
    if (results[i] != nullptr && gradients[i] != nullptr && results[i]->wants_gradient) {
      add(results[i].get(), gradients[i]);
    }
  }
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Tensor& tensor = **at;
    const auto known = found.of.find(&tensor);
    if (known == found.of.end()) {
      continue;
    }
    if (!tensor.is_inner) {
      found.order.push_back(&tensor);
    }
    if (!tensor.pass_gradient) {
      continue;
    }
    const std::vector<Value> passed = tensor.pass_gradient(known->second);
    for (size_t i = 0; i < passed.size(); ++i) {
      const Value& parent = tensor.parents[i];
      if (passed[i] == nullptr || parent == nullptr || !parent->wants_gradient) {
        continue;
      }
      if (!parent->is_inner) {
        found.passed.push_back({passed[i], parent->shape});
      }
      if (passed[i]->shape == parent->shape) {
        add(parent.get(), passed[i]);
      } else {
        add(parent.get(), arithmetic.SumTo(passed[i], parent->shape));
      }
    }
  }
  return found;
}

}  // namespace msprobe::reference
