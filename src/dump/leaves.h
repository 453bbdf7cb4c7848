// The values of a dump's entries by name: tensors, scalar arguments, nulls.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/dump/entry_tree.h"

namespace msprobe::dump {

// Visits every value of an entry in file order. Names are those of a comparison's rows:
// "Functional.conv2d.0.forward.input.0"; keyword arguments count as inputs, and below
// parameters_grad list positions are left out. Not recursive, so that no nesting hurts.
class LeafWalker {
 public:
  using Visit = std::function<void(std::string_view name, uint32_t index)>;

  void ForEach(std::string_view entry_name, const EntryTree& tree, const Visit& visit);

 private:
  struct Open {
    uint32_t index;       // of the container
    size_t name_length;   // of its own name
    uint32_t next_child;  // position of the next one
  };

  std::string name_;
  std::vector<Open> open_;
};

// An object that describes a tensor: it has a non-empty text "dtype".
bool IsTensorLeaf(const EntryTree& tree, uint32_t index);
// The text under a key of a leaf; empty when absent or something else.
std::string_view LeafText(const EntryTree& tree, uint32_t index, std::string_view key);

// The data_name of a tensor: a dump names files of its own folder; anything else is damage or an
// attack.
Status CheckDataName(std::string_view data_name);

}  // namespace msprobe::dump
