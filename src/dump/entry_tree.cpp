#include "src/dump/entry_tree.h"

#include <algorithm>
#include <cstring>

namespace msprobe::dump {

EntryTree::EntryTree(const EntryTree& other) : nodes_(other.nodes_) {
  size_t bytes = 0;
  for (const Node& node : nodes_) {
    bytes += node.key.size() + node.text.size();
  }
  text_.resize(bytes);
  char* place = text_.data();
  const auto keep = [&place](std::string_view view) {
    char* start = place;
    place = std::copy(view.begin(), view.end(), place);
    return std::string_view(start, view.size());
  };
  for (Node& node : nodes_) {
    node.key = keep(node.key);
    node.text = keep(node.text);
  }
}

EntryTree& EntryTree::operator=(const EntryTree& other) {
  if (this != &other) {
    *this = EntryTree(other);
  }
  return *this;
}

void EntryTree::MoveViews(const char* old_text, const char* new_text) {
  const auto moved = [old_text, new_text](std::string_view view) {
    return view.empty() ? std::string_view()
                        : std::string_view(new_text + (view.data() - old_text), view.size());
  };
  for (Node& node : nodes_) {
    node.key = moved(node.key);
    node.text = moved(node.text);
  }
}

uint32_t EntryTree::Find(uint32_t index, std::string_view key) const {
  uint32_t found = kNone;
  if (nodes_[index].kind != NodeKind::kObject) {
    return found;
  }
  ForEachChild(index, [this, key, &found](uint32_t child) {
    if (nodes_[child].key == key) {
      found = child;
    }
  });
  return found;
}

void EntryTreeBuilder::Reset() {
  tree_.nodes_.clear();
  open_.clear();
  key_ = {};
  text_used_ = 0;
}

std::string_view EntryTreeBuilder::Keep(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  std::vector<char>& kept = tree_.text_;
  if (kept.size() - text_used_ < text.size()) {
    constexpr size_t kFirstBytes = 4096;
    std::vector<char> larger(std::max({kFirstBytes, kept.size() * 2, text_used_ + text.size()}));
    if (text_used_ > 0) {
      std::memcpy(larger.data(), kept.data(), text_used_);
    }
    tree_.MoveViews(kept.data(), larger.data());
    if (!key_.empty()) {
      key_ = {larger.data() + (key_.data() - kept.data()), key_.size()};
    }
    kept.swap(larger);
  }
  char* place = kept.data() + text_used_;
  std::memcpy(place, text.data(), text.size());
  text_used_ += text.size();
  return {place, text.size()};
}

Node* EntryTreeBuilder::Append(NodeKind kind) {
  std::vector<Node>& nodes = tree_.nodes_;
  if (nodes.size() >= kMaxNodes) {
    return nullptr;
  }
  if (!open_.empty()) {
    ++nodes[open_.back()].child_count;
  }
  Node& node = nodes.emplace_back();
  node.kind = kind;
  node.key = key_;
  node.end = static_cast<uint32_t>(nodes.size());
  key_ = {};
  return &node;
}

bool EntryTreeBuilder::Null() { return Append(NodeKind::kNull) != nullptr; }

bool EntryTreeBuilder::Bool(bool value) {
  Node* node = Append(NodeKind::kBool);
  if (node == nullptr) {
    return false;
  }
  node->boolean = value;
  return true;
}

bool EntryTreeBuilder::Int(int64_t value) {
  Node* node = Append(NodeKind::kInt);
  if (node == nullptr) {
    return false;
  }
  node->integer = value;
  node->number = static_cast<double>(value);
  return true;
}

bool EntryTreeBuilder::Float(double value, std::string_view digits) {
  Node* node = Append(NodeKind::kFloat);
  if (node == nullptr) {
    return false;
  }
  node->number = value;
  node->text = Keep(digits);
  return true;
}

bool EntryTreeBuilder::Text(std::string_view value) {
  Node* node = Append(NodeKind::kText);
  if (node == nullptr) {
    return false;
  }
  node->text = Keep(value);
  return true;
}

bool EntryTreeBuilder::Begin(NodeKind container) {
  if (Append(container) == nullptr) {
    return false;
  }
  open_.push_back(tree_.size() - 1);
  return true;
}

void EntryTreeBuilder::Key(std::string_view key) { key_ = Keep(key); }

void EntryTreeBuilder::End() {
  tree_.nodes_[open_.back()].end = tree_.size();
  open_.pop_back();
}

}  // namespace msprobe::dump
