// A tensor of a recomputation: what the result is in exact arithmetic, and how far from it a
// correct implementation may be.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "msprobe/tensor_view.h"

namespace msprobe::reference {

// So many elements are worked on together: all that is known of them fits into the L1 cache.
inline constexpr size_t kRunElements = 1024;
inline constexpr std::array<double, kRunElements> kNoErrors{};

struct Tensor;
using Value = std::shared_ptr<const Tensor>;

// What a tensor passes on when the gradient of the result with regard to it is known: one gradient
// per parent, in the shape of the parent, or of the tensor itself where it was broadcast. Null:
// none.
using PassGradient = std::function<std::vector<Value>(const Value& gradient)>;

struct Tensor {
  Shape shape;
  std::vector<double> value;  // row-major
  // error[i] >= |value[i] - x| for every x that a correct implementation may hold there, to first
  // order in the unit roundoff. Empty: all of them are 0. Not finite: nothing is known.
  std::vector<double> error;

  // How it was made; empty for inputs, and when no gradients are asked for.
  std::vector<Value> parents;
  PassGradient pass_gradient;
  bool wants_gradient = false;  // it is an input that has a gradient, or is made of one
  bool is_inner = false;        // of dims moved for loops of ours: no hook of autograd sees it

  size_t size() const { return value.size(); }
  bool is_exact() const { return error.empty(); }
  double error_at(size_t index) const { return error.empty() ? 0.0 : error[index]; }
  // Those of up to kRunElements elements from here on.
  const double* errors_from(size_t index) const {
    return error.empty() ? kNoErrors.data() : error.data() + index;
  }
};

inline Value MakeValue(Shape shape, std::vector<double> value, std::vector<double> error = {}) {
  auto tensor = std::make_shared<Tensor>();
  tensor->shape = std::move(shape);
  tensor->value = std::move(value);
  tensor->error = std::move(error);
  return tensor;
}

}  // namespace msprobe::reference
