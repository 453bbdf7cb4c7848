#include "src/dump/entry_tree.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/json/stream_reader.h"

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

std::string_view EntryTreeBuilder::Copy(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  std::vector<char>& kept = tree_.text_;
  if (kept.size() - text_used_ < text.size()) {
    constexpr size_t kFirstBytes = 512;
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

bool EntryTreeBuilder::OnBool(bool value) {
  Node* node = Append(NodeKind::kBool);
  if (node != nullptr) {
    node->boolean = value;
  }
  return node != nullptr;
}

bool EntryTreeBuilder::OnInt(int64_t value) {
  Node* node = Append(NodeKind::kInt);
  if (node != nullptr) {
    node->integer = value;
    node->number = static_cast<double>(value);
  }
  return node != nullptr;
}

bool EntryTreeBuilder::OnFloat(double value, std::string_view digits) {
  Node* node = Append(NodeKind::kFloat);
  if (node != nullptr) {
    node->number = value;
    node->text = Keep(digits);
  }
  return node != nullptr;
}

bool EntryTreeBuilder::OnText(std::string_view value) {
  Node* node = Append(NodeKind::kText);
  if (node != nullptr) {
    node->text = Keep(value);
  }
  return node != nullptr;
}

bool EntryTreeBuilder::OnKey(std::string_view key) {
  key_ = Keep(key);
  return true;
}

bool EntryTreeBuilder::Begin(NodeKind container) {
  if (Append(container) == nullptr) {
    return false;
  }
  open_.push_back(tree_.size() - 1);
  return true;
}

bool EntryTreeBuilder::End() {
  tree_.nodes_[open_.back()].end = tree_.size();
  open_.pop_back();
  return true;
}

Status ParseEntry(std::string_view text, EntryTree& tree) {
  // One copy of everything is quicker than one per text.
  tree.text_.assign(text.begin(), text.end());
  const std::string_view copied(tree.text_.data(), tree.text_.size());
  EntryTreeBuilder quick;
  quick.Use(std::move(tree));  // a vector that is moved stays where it is
  quick.BorrowTexts();
  quick.Reset();
  const bool is_plain = json::ParsePlainObject(copied, quick) && quick.complete();
  tree = quick.Take();
  if (is_plain) {
    return {};
  }
  EntryTreeBuilder builder;
  MSP_RETURN_IF_ERROR(json::ParseStream(text, builder));
  if (!builder.complete()) {
    // Only an event that does not fit stops a parse that found no error.
    return UnsupportedError(fmt::format("more than {} values", EntryTreeBuilder::kMaxNodes));
  }
  tree = builder.Take();
  return {};
}

Result<EntryTree> ParseEntry(std::string_view text) {
  EntryTree tree;
  MSP_RETURN_IF_ERROR(ParseEntry(text, tree));
  return tree;
}

namespace {

void WriteScalar(const Node& node, json::Writer& json) {
  switch (node.kind) {
    case NodeKind::kBool:
      json.Bool(node.boolean);
      break;
    case NodeKind::kInt:
      json.Int(node.integer);
      break;
    case NodeKind::kFloat:
      // NaN and infinities by name are spelled as the writer spells them.
      if (node.text.find_first_of("0123456789") == std::string_view::npos) {
        json.Float(node.number);
      } else {
        json.Raw(node.text);
      }
      break;
    case NodeKind::kText:
      json.Text(node.text);
      break;
    default:
      json.Null();
      break;
  }
}

}  // namespace

// Without recursion: a file may nest deeper than the stack allows.
void WriteTree(const EntryTree& tree, uint32_t root, json::Writer& json) {
  std::vector<uint32_t> open;  // containers around the next node
  for (uint32_t index = root; index < tree[root].end; ++index) {
    const Node& node = tree[index];
    if (!open.empty() && tree[open.back()].kind == NodeKind::kObject) {
      json.Key(node.key);
    }
    if (node.kind == NodeKind::kObject) {
      json.BeginObject();
      open.push_back(index);
    } else if (node.kind == NodeKind::kList) {
      json.BeginArray();
      open.push_back(index);
    } else {
      WriteScalar(node, json);
    }
    while (!open.empty() && tree[open.back()].end == index + 1) {
      if (tree[open.back()].kind == NodeKind::kObject) {
        json.EndObject();
      } else {
        json.EndArray();
      }
      open.pop_back();
    }
  }
}

std::string CompactText(const EntryTree& tree, uint32_t index) {
  std::string text;
  if (tree[index].kind == NodeKind::kText) {
    text = tree[index].text;
    return text;
  }
  json::Writer json(text, -1);
  WriteTree(tree, index, json);
  return text;
}

void AppendPythonRepr(const EntryTree& tree, uint32_t node, std::string& out) {
  const Node& value = tree[node];
  switch (value.kind) {
    case NodeKind::kNull:
      out += "None";
      return;
    case NodeKind::kBool:
      out += value.boolean ? "True" : "False";
      return;
    case NodeKind::kInt:
      out += std::to_string(value.integer);
      return;
    case NodeKind::kFloat:
      // Integers beyond 64 bits arrive as floats; Python keeps all their digits.
      if (value.text.find_first_not_of("-0123456789") == std::string_view::npos &&
          !value.text.empty()) {
        out += value.text;
      } else {
        base::AppendPythonFloatRepr(value.number, out);
      }
      return;
    case NodeKind::kText:
      base::AppendPythonTextRepr(value.text, out);
      return;
    case NodeKind::kList:
    case NodeKind::kObject:
      break;
  }
  const bool is_object = value.kind == NodeKind::kObject;
  out += is_object ? '{' : '[';
  bool first = true;
  tree.ForEachChild(node, [&](uint32_t child) {
    if (!first) {
      out += ", ";
    }
    first = false;
    if (is_object) {
      base::AppendPythonTextRepr(tree[child].key, out);
      out += ": ";
    }
    AppendPythonRepr(tree, child, out);
  });
  out += is_object ? '}' : ']';
}

std::string PythonStr(const EntryTree& tree, uint32_t node) {
  if (tree[node].kind == NodeKind::kText) {
    return std::string(tree[node].text);
  }
  std::string text;
  AppendPythonRepr(tree, node, text);
  return text;
}

std::string_view PythonClass(NodeKind kind) {
  switch (kind) {
    case NodeKind::kNull:
      return "<class 'NoneType'>";
    case NodeKind::kBool:
      return "<class 'bool'>";
    case NodeKind::kInt:
      return "<class 'int'>";
    case NodeKind::kFloat:
      return "<class 'float'>";
    case NodeKind::kText:
      return "<class 'str'>";
    case NodeKind::kList:
      return "<class 'list'>";
    case NodeKind::kObject:
      return "<class 'dict'>";
  }
  return "<class 'NoneType'>";
}

}  // namespace msprobe::dump
