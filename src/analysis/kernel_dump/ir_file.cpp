// Reads what is needed of MindSpore's IR text:
//
//   %1(CNode_70$b) = PrimFunc_Add(%0, %para2_y) cnode_attrs: {...}
//       : (<Tensor[Float32], ()>) -> (<Tensor[Float32], ()>)
//       # Fullname with scope: (Default/Add-op0)
//       # In file net.py:17, 12~25/        b = ops.add(a, y)/
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/code_mapping.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::analysis::kernel_dump {
namespace {

constexpr size_t kLongestIrLine = size_t{1} << 20U;
constexpr size_t kMostIrNodes = 10'000'000;
constexpr std::string_view kFileLine = "In file ";
constexpr std::string_view kScopeWord = "scope";
constexpr std::string_view kUniqueId = "unique_id";
constexpr std::string_view kForwardUniqueId = "forward_unique_id";

std::string_view StripEnds(std::string_view text, std::string_view characters) {
  const size_t begin = text.find_first_not_of(characters);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(characters) - begin + 1);
}

// "%12(CNode_70$b) = ..." -> "%12&CNode_70$b"
std::optional<std::string> NodeKey(std::string_view line) {
  line = base::Trim(line);
  if (!line.starts_with('%')) {
    return std::nullopt;
  }
  const size_t open = line.find('(');
  const size_t close = line.find(')', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos || open < 2 ||
      !std::all_of(line.begin() + 1, line.begin() + static_cast<ptrdiff_t>(open), base::IsDigit) ||
      !base::Trim(line.substr(close + 1)).starts_with('=')) {
    return std::nullopt;
  }
  return fmt::format("{}&{}", line.substr(0, open), line.substr(open + 1, close - open - 1));
}

// The text behind `key: ` in the attributes of a node, without quotes.
std::string Attribute(std::string_view line, std::string_view key) {
  line = line.substr(0, line.find_last_not_of("\" ") + 1);  // once: the line may be long
  for (size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    const bool whole_word = at == 0 || line[at - 1] == '{' || line[at - 1] == ' ' ||
                            line[at - 1] == ',' || line[at - 1] == '"';
    if (!whole_word) {
      continue;
    }
    const size_t colon = line.find_first_not_of("\" ", at + key.size());
    if (colon == std::string_view::npos || line[colon] != ':') {
      continue;
    }
    const std::string_view rest = StripEnds(line.substr(colon + 1), " ");
    if (rest.starts_with('"')) {
      return std::string(rest.substr(1, rest.find('"', 1) - 1));
    }
    return std::string(rest.substr(0, rest.find_first_of(",} )")));
  }
  return {};
}

// Collects the nodes while lines come by.
class IrCollector {
 public:
  Status Line(std::string_view line) {
    if (std::optional<std::string> key = NodeKey(line)) {
      Finish();
      current_key_ = *std::move(key);
      unique_id_ = Attribute(line, kUniqueId);
      forward_id_ = Attribute(line, kForwardUniqueId);
      return seen_.size() > kMostIrNodes
                 ? UnsupportedError(fmt::format("more than {} nodes", kMostIrNodes))
                 : Status();
    }
    if (current_key_.empty() || done_) {
      return {};
    }
    std::string_view text = base::Trim(line);
    const bool is_comment = text.starts_with("# ");
    if (!scope_) {
      if (!is_comment) {
        return {};  // the types of the node
      }
      const size_t word = text.find(kScopeWord);
      const size_t open = text.find('(', word);
      if (word != std::string_view::npos && open != std::string_view::npos) {
        scope_ = std::string(StripEnds(text.substr(open), "() "));
      } else if (text.find(kFileLine) != std::string_view::npos) {
        AddCode(text);
      }
      return {};
    }
    if (!is_comment) {
      done_ = true;
    } else if (text.find(kFileLine) != std::string_view::npos) {
      AddCode(text);
    }
    return {};
  }

  IrNodes Nodes() {
    Finish();
    // Gradients stand behind their forward nodes, or before them.
    for (auto& [pattern, forward_id] : without_code_) {
      const auto forward = code_of_id_.find(forward_id);
      if (forward != code_of_id_.end()) {
        nodes_[pattern].code_stack = forward->second;
      }
    }
    return std::move(nodes_);
  }

 private:
  void AddCode(std::string_view comment) {
    if (!code_.empty()) {
      code_ += '\n';
    }
    code_ += StripEnds(StripEnds(comment, "# "), "/");
  }

  void Finish() {
    if (!current_key_.empty() && seen_.insert(current_key_).second) {
      if (!unique_id_.empty() && !code_.empty()) {
        code_of_id_.emplace(unique_id_, code_);
      }
      if (scope_ && !scope_->empty()) {
        std::string pattern = base::ReplaceAll(*scope_, "/", "_");
        if (code_.empty() && !forward_id_.empty()) {
          without_code_.emplace(pattern, forward_id_);
        }
        nodes_.try_emplace(std::move(pattern), IrNode{*scope_, code_});
      }
    }
    current_key_.clear();
    scope_.reset();
    code_.clear();
    done_ = false;
  }

  IrNodes nodes_;
  std::set<std::string> seen_;
  std::map<std::string, std::string> code_of_id_;
  std::map<std::string, std::string> without_code_;  // pattern to the id of the forward node
  std::string current_key_;
  std::string unique_id_;
  std::string forward_id_;
  std::optional<std::string> scope_;
  std::string code_;
  bool done_ = false;
};

}  // namespace

Result<IrNodes> ReadIr(const std::filesystem::path& file) {
  MSP_ASSIGN_OR_RETURN(const base::InputFile input, base::InputFile::Open(file));
  IrCollector collector;
  std::string line;
  std::vector<char> buffer(size_t{1} << 16U);
  // Longer lines hold constants: their beginning is enough.
  uint64_t offset = 0;
  for (bool cut = false;;) {
    MSP_ASSIGN_OR_RETURN(const size_t count, input.ReadAt(offset, buffer));
    if (count == 0) {
      break;
    }
    offset += count;
    std::string_view rest(buffer.data(), count);
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      if (!cut) {
        line.append(part.substr(0, kLongestIrLine - std::min(line.size(), kLongestIrLine)));
      }
      cut = line.size() == kLongestIrLine;
      if (end == std::string_view::npos) {
        break;
      }
      MSP_RETURN_IF_ERROR(collector.Line(line), file.string());
      line.clear();
      cut = false;
      rest.remove_prefix(end + 1);
    }
  }
  MSP_RETURN_IF_ERROR(collector.Line(line), file.string());
  IrNodes nodes = collector.Nodes();
  if (nodes.empty()) {
    return BadFormatError(fmt::format("{}: no operator with a scope", file.string()))
        .WithHint(
            "an IR text of MindSpore is expected, with debug information: "
            "MS_DEV_SAVE_GRAPHS=2 or context.save_graphs");
  }
  return nodes;
}

}  // namespace msprobe::analysis::kernel_dump
