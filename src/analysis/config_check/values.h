// Values of a pack's JSON members as the Python tool compares and shows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/json/value_tree.h"
#include "src/report/table.h"

namespace msprobe::analysis::config_check {

// The members of an object as a Python dict has them: a key that is there twice keeps its first
// place and its last value. Empty for anything but an object. Borrows from the tree.
class Members {
 public:
  struct Member {
    std::string_view key;
    uint32_t node = 0;
  };

  Members(const json::ValueTree& tree, uint32_t node);

  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }
  size_t size() const { return members_.size(); }
  const Member& operator[](size_t place) const { return members_[place]; }
  // The place of a key, nullopt when there is none.
  std::optional<size_t> IndexOf(std::string_view key) const;
  // Its node, ValueTree::kNone when there is none.
  uint32_t Find(std::string_view key) const;

 private:
  std::vector<Member> members_;
  std::unordered_map<std::string_view, size_t> places_;
};

// a == b in Python: 1 == 1.0 == True, "1" is not 1, NaN is not NaN, containers by content.
bool PythonEqual(const json::ValueTree& a, uint32_t node_a, const json::ValueTree& b,
                 uint32_t node_b);

// How a value stands in the workbook: numbers and booleans as such, None, NaN and empty texts
// blank, infinities as "inf" and "-inf", containers as Python prints them.
report::Cell ValueCell(report::Table& table, const json::ValueTree& tree, uint32_t node);
report::Cell NumberCell(double value);

}  // namespace msprobe::analysis::config_check
