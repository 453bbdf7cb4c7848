#include "src/analysis/graph/rank_view.h"

#include "src/analysis/graph/items.h"

namespace msprobe::analysis::graph {
namespace {

using compare::CompareMode;

constexpr std::string_view kUnmatched = "The other side has no such node";
constexpr std::string_view kRelativeErrors =
    "Largest relative error of the maximum, minimum, mean and norm of the outputs: "
    "|NPU - bench| / |bench|";
constexpr std::string_view kLostShare =
    "Share of elements within one thousandth that the outputs have lost against the inputs";
constexpr std::string_view kEqualSums = "All checksums are equal";
constexpr std::string_view kOtherSums = "At least one checksum differs";
constexpr std::string_view kVerdict = "The worst verdict of the node's inputs and outputs";

struct Explanation {
  std::string_view name;
  std::string_view text;
};
constexpr Explanation kStatisticTips[] = {{"Max diff", "NPU maximum less that of the bench side"},
                                          {"Min diff", "NPU minimum less that of the bench side"},
                                          {"Mean diff", "NPU mean less that of the bench side"},
                                          {"L2norm diff", "NPU norm less that of the bench side"}};
constexpr Explanation kChecksumTips[] = {{"md5", "CRC-32 of the values, of both sides"}};
constexpr Explanation kRealTips[] = {
    {"One Thousandth Err Ratio", "Share of elements whose relative error is below one thousandth"},
    {"Five Thousandths Err Ratio",
     "Share of elements whose relative error is below five thousandths"},
    {"Cosine", "Cosine of the angle between both tensors: 1 for equal directions"},
    {"MaxAbsErr", "Largest absolute difference of two elements"},
    {"MaxRelativeErr", "Largest relative difference of two elements"}};

}  // namespace

const std::vector<Partners>* SideView::PartnersOf(const Node& node) const {
  if (partners.empty()) {
    return nullptr;
  }
  const auto found = partners.find(node.name);
  return found == partners.end() ? nullptr : &found->second;
}

std::string_view TaskName(std::optional<CompareMode> mode) {
  if (!mode) {
    return "structure";
  }
  switch (*mode) {
    case CompareMode::kRealData:
      return "all";
    case CompareMode::kMd5:
      return "md5";
    default:
      return "summary";
  }
}

std::vector<ColorClass> ColorsOf(std::optional<CompareMode> mode, Edition edition) {
  const ColorClass unmatched = {"#C7C7C7", std::nullopt, kUnmatched, "unmatched node"};
  if (!mode) {
    return {unmatched};
  }
  if (edition == Edition::k26) {
    return {{"#FFFCF3", {{0, 0.3}}, kVerdict, "pass"},
            {"#FFDC7F", {{0.3, 0.6}}, kVerdict, "warning"},
            {"#FF704D", {{0.6, 1}}, kVerdict, "error"},
            unmatched};
  }
  if (*mode == CompareMode::kMd5) {
    return {
        {"#FFFCF3", {{1, 1}}, kEqualSums, {}}, {"#FF704D", {{0, 0}}, kOtherSums, {}}, unmatched};
  }
  const bool is_real = *mode == CompareMode::kRealData;
  const std::string_view text = is_real ? kLostShare : kRelativeErrors;
  const auto range = [is_real](double low, double high, double real_low, double real_high) {
    return is_real ? std::pair(real_low, real_high) : std::pair(low, high);
  };
  return {{"#FFFCF3", range(0, 0.2, 0, 0.05), text, {}},
          {"#FFEDBE", range(0.2, 0.4, 0.05, 0.1), text, {}},
          {"#FFDC7F", range(0.4, 0.6, 0.1, 0.15), text, {}},
          {"#FFC62E", range(0.6, 0.8, 0.15, 0.2), text, {}},
          {"#FF704D", range(0.8, 1, 0.2, 1), text, {}},
          unmatched};
}

std::string ToolTip(std::optional<CompareMode> mode) {
  std::string text;
  json::Writer json(text, -1);
  json.BeginObject();
  const auto add = [&json](const auto& tips) {
    for (const Explanation& tip : tips) {
      json.Member(tip.name, tip.text);
    }
  };
  if (mode == CompareMode::kStatistics) {
    add(kStatisticTips);
  } else if (mode == CompareMode::kMd5) {
    add(kChecksumTips);
  } else if (mode == CompareMode::kRealData) {
    add(kRealTips);
  }
  json.EndObject();
  return text;
}

std::string_view WhyUnmatched(const SideView& other, const Node& node) {
  return other.graph.Find(node.name) == kNone
             ? "the other side has no node of this name"
             : "the other side's node of this name stands elsewhere, or has other inputs or "
               "outputs";
}

void WriteMatchedLink(const Graph& other, uint32_t match, json::Writer& json) {
  json.BeginArray();
  if (match != kNone) {
    for (const uint32_t node : other.PathOf(match)) {
      json.Text(other.nodes[node].name);
    }
  }
  json.EndArray();
}

void WritePartners(const std::vector<Partners>& partners, json::Writer& json) {
  const auto write = [&json](const Partners& group) {
    json.BeginObject();
    json.Member("communications_type", group.kind);
    json.Key("nodes_info");
    json.BeginObject();
    for (const auto& [rank, node] : group.nodes) {
      json.Key(std::to_string(rank));
      json.BeginArray();
      json.Text(node->figure);
      json.Text(node->name);
      json.EndArray();
    }
    json.EndObject();
    json.EndObject();
  };
  if (partners.size() == 1) {
    write(partners.front());
    return;
  }
  json.BeginArray();
  for (const Partners& group : partners) {
    write(group);
  }
  json.EndArray();
}

}  // namespace msprobe::analysis::graph
