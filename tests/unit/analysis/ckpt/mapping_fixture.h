// Checkpoints made in memory, for the tests of the name mapping.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

// A checkpoint whose tensors are float32 and live as long as it does.
class MadeCheckpoint {
 public:
  using Values = std::vector<float>;

  // Values row by row.
  void Add(std::string name, const Shape& shape, Values values) {
    values_.push_back(std::move(values));
    TensorView view;
    view.shape = shape;
    view.strides = ContiguousStrides(shape);
    view.data = reinterpret_cast<const std::byte*>(values_.back().data());
    view.extent_bytes = values_.back().size() * sizeof(float);
    checkpoint_.parameters.push_back(checkpoint::MakeParameter(std::move(name), view, 0));
  }
  // Values first, first + 1, ...
  void Count(std::string name, const Shape& shape, float first = 0) {
    Values values(static_cast<size_t>(ElementCount(shape)));
    for (float& value : values) {
      value = first++;
    }
    Add(std::move(name), shape, std::move(values));
  }

  checkpoint::ModelFacts& facts() { return checkpoint_.facts; }
  checkpoint::Checkpoint& checkpoint() { return checkpoint_; }

 private:
  std::deque<Values> values_;
  checkpoint::Checkpoint checkpoint_;
};

}  // namespace msprobe::analysis::ckpt
