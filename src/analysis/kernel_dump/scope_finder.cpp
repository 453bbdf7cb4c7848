#include <algorithm>
#include <string_view>
#include <utility>

#include "src/analysis/kernel_dump/code_mapping.h"

namespace msprobe::analysis::kernel_dump {

ScopeFinder::ScopeFinder(const IrNodes& nodes) {
  std::vector<std::string_view> scopes;
  for (const IrNodes::value_type& node : nodes) {
    nodes_.push_back(&node);
    scopes.push_back(node.first);
  }
  finder_ = base::TextFinder(scopes);
}

ScopeFinder::Found ScopeFinder::Find(std::string_view op_name) const {
  struct Hit {
    size_t begin;
    size_t length;
    const IrNode* node;
  };
  std::vector<Hit> hits;
  Found found;
  finder_.ForEachHit(op_name, [&](uint32_t index, size_t end) {
    found.cut = hits.size() == kMostScopes;
    if (!found.cut) {
      const auto& [scope, node] = *nodes_[index];
      hits.push_back({end - scope.size(), scope.size(), &node});
    }
    return found.cut;
  });
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) {
    return std::pair(a.begin, a.length) < std::pair(b.begin, b.length);
  });
  for (const Hit& hit : hits) {
    if (found.code_stack.size() + hit.node->code_stack.size() > kMostCodeBytes ||
        found.scope_name.size() + hit.node->scope.size() > kMostCodeBytes) {
      found.cut = true;
      break;
    }
    if (!found.scope_name.empty()) {
      found.code_stack += '\n';
      found.scope_name += '\n';
    }
    found.code_stack += hit.node->code_stack;
    found.scope_name += hit.node->scope;
  }
  return found;
}

}  // namespace msprobe::analysis::kernel_dump
