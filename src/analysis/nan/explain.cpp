#include "src/analysis/nan/explain.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/names.h"
#include "src/dump/dump_file.h"

namespace msprobe::analysis::nan::internal {
namespace {

using dump::EntryTree;
using dump::NodeKind;

// "torch.float32" -> "float32".
std::string_view PlainDtype(std::string_view dtype) {
  return dtype.substr(dtype.find('.') == std::string_view::npos ? 0 : dtype.find('.') + 1);
}

std::string MemberText(const EntryTree& tree, uint32_t object, std::string_view key) {
  const uint32_t at = tree.Find(object, key);
  return at == EntryTree::kNone ? std::string() : base::Printable(dump::CompactText(tree, at));
}

BadValues BadValuesOfMember(const EntryTree& tree, uint32_t object, std::string_view key) {
  const uint32_t at = tree.Find(object, key);
  return at == EntryTree::kNone
             ? BadValues{0}
             : BadValuesOfText(MemberText(tree, object, key)) |
                   (dump::CompactText(tree, at) == "NaN"         ? kNan
                    : dump::CompactText(tree, at) == "Infinity"  ? kPositiveInfinity
                    : dump::CompactText(tree, at) == "-Infinity" ? kNegativeInfinity
                                                                 : BadValues{0});
}

class ValueLister {
 public:
  ValueLister(const EntryTree& tree, size_t most) : tree_(tree), most_(most) {}

  std::vector<ValueLine> Run() {
    if (tree_.size() == 0 || tree_[0].kind != NodeKind::kObject) {
      return {};
    }
    tree_.ForEachChild(0, [&](uint32_t section) {
      if (tree_[section].key != "is_recompute" && tree_[section].key != "is_nan") {
        List(section);
      }
    });
    return std::move(lines_);
  }

 private:
  // Everything in a section, without recursion: a path of names is kept along the way.
  void List(uint32_t section) {
    struct Open {
      uint32_t node = 0;
      size_t name_bytes = 0;  // of the path up to here
      uint32_t next_item = 0;
    };
    std::string path(tree_[section].key);
    std::vector<Open> open = {{section, path.size(), 0}};
    for (uint32_t index = section + 1; index < tree_[section].end && lines_.size() < most_;) {
      while (index >= tree_[open.back().node].end) {
        open.pop_back();
      }
      Open& parent = open.back();
      path.resize(parent.name_bytes);
      path += '.';
      path += tree_[parent.node].kind == NodeKind::kList ? std::to_string(parent.next_item++)
                                                         : base::Printable(tree_[index].key);
      if (tree_[index].kind == NodeKind::kObject && AddLine(index, path)) {
        index = tree_[index].end;
        continue;
      }
      if (tree_[index].kind == NodeKind::kObject || tree_[index].kind == NodeKind::kList) {
        open.push_back({index, path.size(), 0});
      }
      ++index;
    }
  }

  bool AddLine(uint32_t object, const std::string& path) {
    ValueLine line;
    line.name = path;
    if (tree_.Find(object, dump::KeyOf(dump::kMax)) != EntryTree::kNone) {
      line.text = fmt::format(
          "{} {}  max {}  min {}", PlainDtype(MemberText(tree_, object, "dtype")),
          MemberText(tree_, object, "shape"), MemberText(tree_, object, dump::KeyOf(dump::kMax)),
          MemberText(tree_, object, dump::KeyOf(dump::kMin)));
      line.bad = BadValuesOfMember(tree_, object, dump::KeyOf(dump::kMax)) |
                 BadValuesOfMember(tree_, object, dump::KeyOf(dump::kMin));
    } else if (tree_.Find(object, "group_ranks") != EntryTree::kNone) {
      line.text = "group " + MemberText(tree_, object, "group_ranks");
    } else if (tree_.Find(object, "value") != EntryTree::kNone) {
      line.text = MemberText(tree_, object, "value");
    } else {
      return false;
    }
    lines_.push_back(std::move(line));
    return true;
  }

  const EntryTree& tree_;
  const size_t most_;
  std::vector<ValueLine> lines_;
};

std::string FirstLine(const StepAnswer& answer) {
  const Finding& first = answer.findings.front();
  const std::string name = base::Printable(first.name);
  const std::string made = BadValuesText(first.made);
  switch (first.kind) {
    case OriginKind::kComputed:
    case OriginKind::kMaskedRow:
      return fmt::format("FOUND: rank {} made the first {}, in {}", first.rank, made, name);
    case OriginKind::kCommunication:
      return fmt::format("FOUND: the first {} came out of a communication, {} (rank {})", made,
                         name, first.rank);
    case OriginKind::kMissingPartner:
      return fmt::format(
          "FOUND: the first {} reached rank {} from a rank that is not in the dump, "
          "by {}",
          made, first.rank, name);
    case OriginKind::kUnrecorded:
      return fmt::format(
          "FOUND: the first {} was made on rank {} by a call that is not recorded, first seen by "
          "{}",
          made, first.rank, name);
    case OriginKind::kExternalInput:
      return fmt::format(
          "ENTERED: {} entered rank {} from outside the recorded calls, first seen by {}", made,
          first.rank, name);
    case OriginKind::kConstant:
      return fmt::format("ENTERED: rank {} was asked for {}, as a constant of {}", first.rank, made,
                         name);
    case OriginKind::kUninitialised:
      return fmt::format("ENTERED: {} on rank {} read {} from uninitialised memory", name,
                         first.rank, made);
    case OriginKind::kRecomputed:
      return fmt::format("ENTERED: {} on rank {} produced {} only when recomputed", name,
                         first.rank, made);
  }
  return {};
}

}  // namespace

std::string Headline(const Answer& answer) {
  const StepAnswer& step = answer.step;
  std::string text;
  if (step.outcome == Outcome::kNothing) {
    text = fmt::format("NOTHING SEARCHED: {} of {} without the maximum of any tensor",
                       base::Plural(step.operator_count, "operator"),
                       base::Plural(step.ranks.size(), "rank"));
  } else if (step.outcome == Outcome::kPartial) {
    text = fmt::format("INCOMPLETE: no NaN and no infinity in the {} that could be read",
                       base::Plural(step.operator_count, "operator"));
  } else if (step.outcome != Outcome::kGood) {
    text = FirstLine(step);
  } else {
    const size_t steps = answer.good_steps.size() + 1;
    return fmt::format(
        "GOOD: no NaN and no infinity {}in {} of {}{}",
        step.search.weak.empty() ? "" : "that needs an explanation ",
        base::Plural(step.operator_count, "operator"), base::Plural(step.ranks.size(), "rank"),
        steps > 1 ? fmt::format(" in the last of {}", base::Plural(steps, "step")) : "");
  }
  if (step.step && !answer.good_steps.empty()) {
    text.insert(text.find(':'), fmt::format(" in step {}", *step.step));
  }
  return text;
}

std::string_view KindSentence(OriginKind kind) {
  switch (kind) {
    case OriginKind::kComputed:
      return "good inputs, bad outputs";
    case OriginKind::kMaskedRow:
      return "its inputs hold nothing worse than the -inf of a mask; a row that is masked as a "
             "whole gives NaN";
    case OriginKind::kCommunication:
      return "its inputs were good on all ranks, its output is not";
    case OriginKind::kMissingPartner:
      return "received from a rank whose dump is missing or truncated: look for the cause there";
    case OriginKind::kUnrecorded:
      return "its inputs were bad, while those of the module around it were good";
    case OriginKind::kExternalInput:
      return "its inputs were bad, and no recorded operator produced them";
    case OriginKind::kConstant:
      return "the value is among its arguments";
    case OriginKind::kUninitialised:
      return "its input is an uninitialised tensor";
    case OriginKind::kRecomputed:
      return "activation checkpointing recomputed it, and its first run cannot be found";
  }
  return {};
}

std::string_view NextStep(const StepAnswer& answer) {
  if (answer.outcome == Outcome::kGood) {
    return "";
  }
  if (answer.outcome == Outcome::kPartial) {
    return "The warnings name the dump that is truncated, damaged or not readable: capture that "
           "step "
           "again; bad values may be in what is missing.";
  }
  if (answer.outcome == Outcome::kNothing) {
    return "Dump with \"task\": \"statistics\" or \"tensor\"; checksums say nothing about values.";
  }
  switch (answer.findings.front().kind) {
    case OriginKind::kComputed:
      return "Look at the range of its inputs: a logarithm, root or division of zero, an exponent "
             "too large for the dtype. Inputs far from 1 come from operators before it.";
    case OriginKind::kMaskedRow:
      return "Look for rows that are masked completely: empty samples, or padding only.";
    case OriginKind::kCommunication:
      return "Sums may overflow in a narrow dtype. Otherwise suspect the link or the library: run "
             "it again, and compare the buffers of all ranks.";
    case OriginKind::kMissingPartner:
      return "Collect the dumps of all ranks of its group and search again.";
    case OriginKind::kUnrecorded:
      return "Check that module for operations that are not recorded: custom kernels, indexing, "
             "weights and buffers that it does not own.";
    case OriginKind::kExternalInput:
      return "Check the data, the weights and the state of the optimizer before this step, and "
             "calls that are not recorded, such as indexing and custom kernels. "
             "--all-steps finds the first bad step.";
    case OriginKind::kConstant:
      return "Check whether the constant is intended; -inf of masks is not reported.";
    case OriginKind::kUninitialised:
      return "Initialise the tensor, or find the kernel that should have filled it.";
    case OriginKind::kRecomputed:
      return "Switch activation checkpointing off for this layer and search again.";
  }
  return "";
}

std::string FrameLine(std::string_view frame) {
  std::string line(frame.starts_with("File ") ? frame.substr(5) : frame);
  if (const size_t at = line.find('\n'); at != std::string::npos) {
    const std::string code(base::Trim(std::string_view(line).substr(at)));
    line.resize(at);
    while (!line.empty() && (line.back() == ' ' || line.back() == ',')) {
      line.pop_back();
    }
    line += code.empty() ? "" : ": " + code;
  }
  return base::Printable(line);
}

std::vector<ValueLine> ValueLines(const EntryTree& entry, size_t most) {
  return ValueLister(entry, most).Run();
}

std::vector<ChainLine> ChainLines(const StepAnswer& answer) {
  std::vector<ChainLine> lines;
  for (const Arrival& arrival : answer.propagation.chain) {
    const RankDump& from = answer.ranks[arrival.from_rank];
    const RankDump& to = answer.ranks[arrival.to_rank];
    const std::string from_name = base::Printable(from.operators[arrival.from_operator].name);
    if (lines.empty() || lines.back().from_rank != from.rank ||
        lines.back().from_name != from_name) {
      lines.push_back(
          {from.rank, from_name, {}, base::Printable(to.operators[arrival.to_operator].name)});
    }
    lines.back().to_ranks.push_back(to.rank);
  }
  return lines;
}

std::string RankList(const std::vector<int64_t>& ranks) {
  constexpr size_t kShown = 8;
  std::vector<std::string> texts;
  for (const int64_t rank : std::span(ranks).first(std::min(ranks.size(), kShown))) {
    texts.push_back(std::to_string(rank));
  }
  std::string text = (ranks.size() == 1 ? "rank " : "ranks ") + base::Join(texts, ", ");
  if (ranks.size() > kShown) {
    text += fmt::format(" and {} more", ranks.size() - kShown);
  }
  return text;
}

}  // namespace msprobe::analysis::nan::internal
