#include "src/json/value_tree.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/json/stream_reader.h"

namespace msprobe::json {
namespace {

class TreeHandler final : public Handler {
 public:
  bool OnNull() override { return builder_.Null(); }
  bool OnBool(bool value) override { return builder_.Bool(value); }
  bool OnInt(int64_t value) override { return builder_.Int(value); }
  bool OnFloat(double value, std::string_view digits) override {
    return builder_.Float(value, digits);
  }
  bool OnText(std::string_view value) override { return builder_.Text(value); }
  bool OnBeginObject() override { return builder_.Begin(ValueKind::kObject); }
  bool OnKey(std::string_view key) override {
    builder_.Key(key);
    return true;
  }
  bool OnEndObject() override {
    builder_.End();
    return true;
  }
  bool OnBeginArray() override { return builder_.Begin(ValueKind::kList); }
  bool OnEndArray() override {
    builder_.End();
    return true;
  }

  ValueTreeBuilder& builder() { return builder_; }

 private:
  ValueTreeBuilder builder_;
};

}  // namespace

ValueTree::ValueTree(const ValueTree& other) : nodes_(other.nodes_) {
  size_t bytes = 0;
  for (const ValueNode& node : nodes_) {
    bytes += node.key.size() + node.text.size();
  }
  text_.resize(bytes);
  char* place = text_.data();
  const auto keep = [&place](std::string_view view) {
    char* start = place;
    place = std::copy(view.begin(), view.end(), place);
    return std::string_view(start, view.size());
  };
  for (ValueNode& node : nodes_) {
    node.key = keep(node.key);
    node.text = keep(node.text);
  }
}

ValueTree& ValueTree::operator=(const ValueTree& other) {
  if (this != &other) {
    *this = ValueTree(other);
  }
  return *this;
}

void ValueTree::MoveViews(const char* old_text, const char* new_text) {
  const auto moved = [old_text, new_text](std::string_view view) {
    return view.empty() ? std::string_view()
                        : std::string_view(new_text + (view.data() - old_text), view.size());
  };
  for (ValueNode& node : nodes_) {
    node.key = moved(node.key);
    node.text = moved(node.text);
  }
}

uint32_t ValueTree::Find(uint32_t index, std::string_view key) const {
  uint32_t found = kNone;
  if (nodes_[index].kind != ValueKind::kObject) {
    return found;
  }
  ForEachChild(index, [this, key, &found](uint32_t child) {
    if (nodes_[child].key == key) {
      found = child;
    }
  });
  return found;
}

void ValueTreeBuilder::Reset() {
  tree_.nodes_.clear();
  open_.clear();
  key_ = {};
  text_used_ = 0;
}

std::string_view ValueTreeBuilder::Copy(std::string_view text) {
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

ValueNode* ValueTreeBuilder::Append(ValueKind kind) {
  std::vector<ValueNode>& nodes = tree_.nodes_;
  if (nodes.size() >= kMaxNodes) {
    return nullptr;
  }
  if (!open_.empty()) {
    ++nodes[open_.back()].child_count;
  }
  ValueNode& node = nodes.emplace_back();
  node.kind = kind;
  node.key = key_;
  node.end = static_cast<uint32_t>(nodes.size());
  key_ = {};
  return &node;
}

bool ValueTreeBuilder::Null() { return Append(ValueKind::kNull) != nullptr; }

bool ValueTreeBuilder::Bool(bool value) {
  ValueNode* node = Append(ValueKind::kBool);
  if (node == nullptr) {
    return false;
  }
  node->boolean = value;
  return true;
}

bool ValueTreeBuilder::Int(int64_t value) {
  ValueNode* node = Append(ValueKind::kInt);
  if (node == nullptr) {
    return false;
  }
  node->integer = value;
  node->number = static_cast<double>(value);
  return true;
}

bool ValueTreeBuilder::Float(double value, std::string_view digits) {
  ValueNode* node = Append(ValueKind::kFloat);
  if (node == nullptr) {
    return false;
  }
  node->number = value;
  node->text = Keep(digits);
  return true;
}

bool ValueTreeBuilder::Text(std::string_view value) {
  ValueNode* node = Append(ValueKind::kText);
  if (node == nullptr) {
    return false;
  }
  node->text = Keep(value);
  return true;
}

bool ValueTreeBuilder::Begin(ValueKind container) {
  if (Append(container) == nullptr) {
    return false;
  }
  open_.push_back(tree_.size() - 1);
  return true;
}

void ValueTreeBuilder::Key(std::string_view key) { key_ = Keep(key); }

void ValueTreeBuilder::End() {
  tree_.nodes_[open_.back()].end = tree_.size();
  open_.pop_back();
}

Status ParseValueTree(std::string_view text, ValueTree& tree) {
  // A text this short cannot hold too many values, so the walk need not be stopped.
  if (text.size() < ValueTreeBuilder::kMaxNodes) {
    // One copy of everything is quicker than one per text.
    tree.text_.assign(text.begin(), text.end());
    const std::string_view copied(tree.text_.data(), tree.text_.size());
    TreeHandler quick;
    quick.builder().Use(std::move(tree));  // a vector that is moved stays where it is
    quick.builder().BorrowTexts();
    quick.builder().Reset();
    const bool is_plain = WalkPlainObject(copied, quick);
    tree = quick.builder().Take();
    if (is_plain) {
      return {};
    }
  }
  TreeHandler handler;
  MSP_RETURN_IF_ERROR(ParseStream(text, handler));
  if (!handler.builder().complete()) {
    // Only an event that does not fit stops a parse that found no error.
    return UnsupportedError(fmt::format("more than {} values", ValueTreeBuilder::kMaxNodes));
  }
  tree = handler.builder().Take();
  return {};
}

Result<ValueTree> ParseValueTree(std::string_view text) {
  ValueTree tree;
  MSP_RETURN_IF_ERROR(ParseValueTree(text, tree));
  return tree;
}

namespace {

void WriteScalar(const ValueNode& node, Writer& json) {
  switch (node.kind) {
    case ValueKind::kBool:
      json.Bool(node.boolean);
      break;
    case ValueKind::kInt:
      json.Int(node.integer);
      break;
    case ValueKind::kFloat:
      // NaN and infinities by name are spelled as the writer spells them.
      if (node.text.find_first_of("0123456789") == std::string_view::npos) {
        json.Float(node.number);
      } else {
        json.Raw(node.text);
      }
      break;
    case ValueKind::kText:
      json.Text(node.text);
      break;
    default:
      json.Null();
      break;
  }
}

}  // namespace

// Without recursion: a file may nest deeper than the stack allows.
void WriteTree(const ValueTree& tree, uint32_t root, Writer& json) {
  std::vector<uint32_t> open;  // containers around the next node
  for (uint32_t index = root; index < tree[root].end; ++index) {
    const ValueNode& node = tree[index];
    if (!open.empty() && tree[open.back()].kind == ValueKind::kObject) {
      json.Key(node.key);
    }
    if (node.kind == ValueKind::kObject) {
      json.BeginObject();
      open.push_back(index);
    } else if (node.kind == ValueKind::kList) {
      json.BeginArray();
      open.push_back(index);
    } else {
      WriteScalar(node, json);
    }
    while (!open.empty() && tree[open.back()].end == index + 1) {
      if (tree[open.back()].kind == ValueKind::kObject) {
        json.EndObject();
      } else {
        json.EndArray();
      }
      open.pop_back();
    }
  }
}

std::string CompactText(const ValueTree& tree, uint32_t index) {
  std::string text;
  if (tree[index].kind == ValueKind::kText) {
    text = tree[index].text;
    return text;
  }
  Writer json(text, -1);
  WriteTree(tree, index, json);
  return text;
}

void AppendPythonRepr(const ValueTree& tree, uint32_t node, std::string& out) {
  const ValueNode& value = tree[node];
  switch (value.kind) {
    case ValueKind::kNull:
      out += "None";
      return;
    case ValueKind::kBool:
      out += value.boolean ? "True" : "False";
      return;
    case ValueKind::kInt:
      out += std::to_string(value.integer);
      return;
    case ValueKind::kFloat:
      // Integers beyond 64 bits arrive as floats; Python keeps all their digits.
      if (value.text.find_first_not_of("-0123456789") == std::string_view::npos &&
          !value.text.empty()) {
        out += value.text;
      } else {
        base::AppendPythonFloatRepr(value.number, out);
      }
      return;
    case ValueKind::kText:
      base::AppendPythonTextRepr(value.text, out);
      return;
    case ValueKind::kList:
    case ValueKind::kObject:
      break;
  }
  const bool is_object = value.kind == ValueKind::kObject;
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

std::string PythonStr(const ValueTree& tree, uint32_t node) {
  if (tree[node].kind == ValueKind::kText) {
    return std::string(tree[node].text);
  }
  std::string text;
  AppendPythonRepr(tree, node, text);
  return text;
}

std::string_view PythonClass(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNull:
      return "<class 'NoneType'>";
    case ValueKind::kBool:
      return "<class 'bool'>";
    case ValueKind::kInt:
      return "<class 'int'>";
    case ValueKind::kFloat:
      return "<class 'float'>";
    case ValueKind::kText:
      return "<class 'str'>";
    case ValueKind::kList:
      return "<class 'list'>";
    case ValueKind::kObject:
      return "<class 'dict'>";
  }
  return "<class 'NoneType'>";
}

}  // namespace msprobe::json
