#include "src/analysis/compare/line26/ge_graph.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/io/kernel_dump/file_name.h"

namespace msprobe::analysis::compare {
namespace {

constexpr std::string_view kFxAttribute = "_fx_tensor_name";
constexpr std::string_view kOutputMark = ".OUTPUT.";

FxOutput ParseFxName(std::string_view text, size_t number) {
  const size_t mark = text.rfind(kOutputMark);
  if (mark == std::string_view::npos) {
    return {std::string(text), number};
  }
  const std::optional<int64_t> told = base::ParseInt(text.substr(mark + kOutputMark.size()));
  return {std::string(text.substr(0, mark)),
          told && *told >= 0 ? static_cast<size_t>(*told) : number};
}

// One walk over the text, level by level of its blocks.
class Reader {
 public:
  Reader(std::string_view text, GeGraph& graph) : text_(text), graph_(graph) {}

  Status Read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '{') {
        MSP_RETURN_IF_ERROR(Open());
      } else if (c == '}') {
        MSP_RETURN_IF_ERROR(Close());
      } else if (c == '"' || c == '\'') {
        std::string value;
        MSP_RETURN_IF_ERROR(Quoted(c, value));
        Value(value);
      } else if (IsWord(c)) {
        const size_t first = at_;
        while (at_ < text_.size() && IsWord(text_[at_])) {
          ++at_;
        }
        word_ = text_.substr(first, at_ - first);
      } else {
        ++at_;
      }
    }
    return blocks_.empty() ? Status() : Bad("the text ends inside of a block");
  }

 private:
  static bool IsWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  Status Bad(std::string_view what) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n');
    return BadFormatError(fmt::format("line {}: {}", line, what));
  }

  Status Open() {
    if (blocks_.size() == kDeepestGeGraph) {
      return Bad("too many blocks inside each other");
    }
    blocks_.push_back(word_);
    if (word_ == "op") {
      name_.clear();
      outputs_.clear();
    } else if (word_ == "output_desc") {
      outputs_.emplace_back();
    } else if (word_ == "attr") {
      key_.clear();
    }
    ++at_;
    return {};
  }

  Status Close() {
    if (blocks_.empty()) {
      return Bad("a block ends that did not begin");
    }
    if (blocks_.back() == "op" && !name_.empty()) {
      if (graph_.size() == kMostGeNodes) {
        return Bad("too many operators");
      }
      graph_[io::kernel_dump::InFileNames(name_)].outputs = std::move(outputs_);
    }
    blocks_.pop_back();
    ++at_;
    return {};
  }

  Status Quoted(char quote, std::string& value) {
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
      }
      value += text_[at_];
    }
    if (at_ == text_.size()) {
      return Bad("a quoted word that does not end");
    }
    ++at_;
    return {};
  }

  template <size_t kCount>
  bool Inside(const std::array<std::string_view, kCount>& path) const {
    return blocks_.size() >= kCount &&
           std::equal(path.begin(), path.end(), blocks_.end() - static_cast<ptrdiff_t>(kCount));
  }

  void Value(const std::string& value) {
    constexpr std::array<std::string_view, 1> kOp = {"op"};
    constexpr std::array<std::string_view, 3> kAttribute = {"op", "output_desc", "attr"};
    constexpr std::array<std::string_view, 4> kText = {"op", "output_desc", "attr", "value"};
    if (word_ == "name" && Inside(kOp)) {
      name_ = value;
    } else if (word_ == "key" && Inside(kAttribute)) {
      key_ = value;
    } else if (word_ == "s" && Inside(kText) && key_ == kFxAttribute && !outputs_.empty()) {
      outputs_.back() = ParseFxName(value, outputs_.size() - 1);
    }
  }

  std::string_view text_;
  GeGraph& graph_;
  size_t at_ = 0;
  std::string_view word_;  // in front of a block or value
  std::vector<std::string_view> blocks_;
  std::string name_;
  std::string key_;
  std::vector<FxOutput> outputs_;
};

// The longest name that `text` starts with. Names are sorted: what stands in front of the place of
// `text` is such a name, or shares its longest common start with it, which is the next to look for.
GeGraph::const_iterator LongestStart(const GeGraph& graph, std::string_view text) {
  while (true) {
    auto place = graph.upper_bound(text);
    if (place == graph.begin()) {
      return graph.end();
    }
    --place;
    const std::string_view name = place->first;
    if (text.starts_with(name)) {
      return place;
    }
    const auto parting = std::mismatch(text.begin(), text.end(), name.begin(), name.end());
    text = text.substr(0, static_cast<size_t>(parting.first - text.begin()));
  }
}

}  // namespace

Status ReadGeGraph(std::string_view text, GeGraph& graph) { return Reader(text, graph).Read(); }

std::vector<const GeNode*> SplitFused(const GeGraph& graph, std::string_view fused,
                                      std::vector<std::string>* names) {
  std::vector<const GeNode*> parts;
  while (!fused.empty()) {
    const auto found = LongestStart(graph, fused);
    if (found == graph.end()) {
      return {};
    }
    parts.push_back(&found->second);
    if (names != nullptr) {
      names->push_back(found->first);
    }
    fused.remove_prefix(found->first.size());
  }
  return parts;
}

}  // namespace msprobe::analysis::compare
