#include "src/analysis/graph/model.h"

#include <algorithm>
#include <utility>

namespace msprobe::analysis::graph {

Graph::Graph() { Add(kRootName, NodeType::kModule); }

void Graph::Reserve(size_t count) {
  nodes.reserve(count);
  index_of_name_.reserve(count);
}

uint32_t Graph::Find(std::string_view name) const {
  const auto found = index_of_name_.find(name);
  return found == index_of_name_.end() ? kNone : found->second;
}

uint32_t Graph::Add(std::string_view name, NodeType type) {
  const auto index = static_cast<uint32_t>(nodes.size());
  Node& node = nodes.emplace_back();
  node.name = names_->Keep(name);
  node.type = type;
  index_of_name_.emplace(node.name, index);
  return index;
}

void Graph::Attach(uint32_t node, uint32_t parent) {
  nodes[node].parent = parent;
  nodes[parent].children.push_back(node);
}

std::vector<uint32_t> Graph::PathOf(uint32_t node) const {
  std::vector<uint32_t> path;
  for (; node != kNone; node = nodes[node].parent) {
    path.push_back(node);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<uint32_t> Graph::PostOrder() const {
  // Parents first with the last child first, backwards.
  std::vector<uint32_t> order;
  order.reserve(nodes.size());
  std::vector<uint32_t> open = {kRoot};
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    order.push_back(node);
    open.insert(open.end(), nodes[node].children.begin(), nodes[node].children.end());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<uint32_t> Graph::LevelOrder() const {
  std::vector<uint32_t> order = {kRoot};
  order.reserve(nodes.size());
  for (size_t at = 0; at < order.size(); ++at) {
    const std::vector<uint32_t>& children = nodes[order[at]].children;
    order.insert(order.end(), children.begin(), children.end());
  }
  return order;
}

}  // namespace msprobe::analysis::graph
