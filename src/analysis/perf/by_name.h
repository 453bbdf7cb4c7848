// Rows of one side found by their names.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

namespace msprobe::analysis::perf {

// `Row` has a `name`; of equal names the first row counts. The rows must live as long.
template <typename Row>
class ByName {
 public:
  explicit ByName(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      rows_.emplace(row.name, &row);
    }
  }

  // Null where no row has the name.
  const Row* Find(std::string_view name) const {
    const auto found = rows_.find(name);
    return found == rows_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string_view, const Row*> rows_;
};

}  // namespace msprobe::analysis::perf
