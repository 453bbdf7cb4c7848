#include "src/analysis/perf/overall_sheet.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/perf/by_name.h"
#include "src/analysis/perf/difference.h"
#include "src/analysis/perf/sheet.h"
#include "src/analysis/perf/units.h"

namespace msprobe::analysis::perf {
namespace {

using report::Shade;

// One side of one row; without a count the cell shows a stroke.
struct Share {
  double ms = 0;
  std::optional<int64_t> count;
};

Share Of(const Bucket& bucket) { return {bucket.ms, bucket.count}; }
Share Time(double ms) { return {ms, std::nullopt}; }

Share Other(const OverallTimes& times) {
  const double rest =
      times.computing_s * kMsPerS - times.flash_forward().ms - times.flash_backward().ms -
      times.conv_forward().ms - times.conv_backward().ms - times.matmul().ms - times.vector().ms -
      times.tensor_move.ms - times.other_cube.ms - times.paged_attention.ms - times.combined_ms();
  return Time(std::max(0.0, rest));
}

Share Computing(const OverallTimes& times) {
  const Bucket all = times.flash_forward() + times.flash_backward() + times.conv_forward() +
                     times.conv_backward() + times.matmul() + times.vector() + times.tensor_move +
                     times.other_cube + times.paged_attention;
  return {times.computing_s * kMsPerS, all.count};
}

class OverallRows {
 public:
  OverallRows(const OverallTimes& base, const OverallTimes& comparison, const PairOptions& options)
      : base_(base), comparison_(comparison) {
    constexpr auto kInteger = report::NumberFormat::kInteger;
    constexpr auto kFixed = report::NumberFormat::kFixed2;
    constexpr auto kPercent = report::NumberFormat::kPercent;
    static constexpr std::array<SheetColumn, 9> kColumns = {
        {{"Index", 40, kInteger, false},
         {"Duration(ms)", 20, kFixed, false},
         {"Duration Ratio", 20, kPercent, false},
         {"Number", 10, kInteger, false},
         {"Duration(ms)", 20, kFixed, false},
         {"Duration Ratio", 20, kPercent, false},
         {"Number", 10, kInteger, false},
         {"Diff Duration(ms)", 20, kFixed, false},
         {"Diff Ratio", 10, kPercent, false}}};
    sheet_ = MakeSheet("OverallMetrics", kColumns, {1, 3}, {4, 6}, options);
  }

  report::FormattedTable Build() {
    Row("Computing Time", Computing(base_), Computing(comparison_), Shade::kDeepSky);
    AddCombined();
    AddComputing();
    Row("Uncovered Communication Time", Time(base_.uncovered_s * kMsPerS),
        Time(comparison_.uncovered_s * kMsPerS), Shade::kDeepSky);
    AddGroups();
    AddOverlaps();
    Row("Free Time", Time(base_.free_s * kMsPerS), Time(comparison_.free_s * kMsPerS),
        Shade::kDeepSky);
    Row("\tSDMA", Time(base_.stream_copies.ms), Time(comparison_.stream_copies.ms), Shade::kNone);
    Row("\tFree", Time(base_.free_s * kMsPerS - base_.stream_copies.ms),
        Time(comparison_.free_s * kMsPerS - comparison_.stream_copies.ms), Shade::kNone);
    Row("E2E Time", Time(base_.end_to_end_s * kMsPerS), Time(comparison_.end_to_end_s * kMsPerS),
        Shade::kDeepSky);
    return std::move(sheet_);
  }

 private:
  void Row(const std::string& index, const Share& base, const Share& comparison, Shade shade) {
    if (base.ms == 0 && comparison.ms == 0) {
      return;
    }
    report::Table& table = sheet_.table;
    const auto number = [](const Share& share) {
      return share.count.has_value() ? report::Cell::Integer(*share.count)
                                     : report::Cell::Text("/");
    };
    const auto part = [](const Share& share, const OverallTimes& times) {
      return report::Cell::Number(share.ms / (times.end_to_end_s * kMsPerS));
    };
    const Difference difference = Differ(base.ms, comparison.ms);
    const std::array<report::Cell, 9> cells = {table.KeepText(index),
                                               report::Cell::Number(base.ms),
                                               part(base, base_),
                                               number(base),
                                               report::Cell::Number(comparison.ms),
                                               part(comparison, comparison_),
                                               number(comparison),
                                               report::Cell::Number(difference.difference),
                                               report::Cell::Number(difference.ratio)};
    table.AddRow(cells);
    sheet_.row_shades.push_back(shade);
    sheet_.row_indents.push_back(
        static_cast<uint8_t>(std::min(index.find_first_not_of('\t'), size_t{UINT8_MAX})));
  }

  // Kernels that compute and communicate in one, met by name.
  void AddCombined() {
    const auto add = [&](const CombinedKernel* base, const CombinedKernel* comparison) {
      const CombinedKernel none;
      const CombinedKernel& first = base != nullptr ? *base : none;
      const CombinedKernel& second = comparison != nullptr ? *comparison : none;
      const auto count = [](const CombinedKernel* kernel) {
        return kernel != nullptr ? std::optional(kernel->count) : std::nullopt;
      };
      Row("\t" + (base != nullptr ? base : comparison)->name, {first.total_ms, count(base)},
          {second.total_ms, count(comparison)}, Shade::kLightSky);
      Row("\t\tComputing", Time(first.computing_ms), Time(second.computing_ms), Shade::kNone);
      Row("\t\tCommunication", Time(first.communication_ms), Time(second.communication_ms),
          Shade::kNone);
    };
    const ByName<CombinedKernel> of_base(base_.combined);
    const ByName<CombinedKernel> of_comparison(comparison_.combined);
    for (const CombinedKernel& kernel : base_.combined) {
      add(&kernel, of_comparison.Find(kernel.name));
    }
    for (const CombinedKernel& kernel : comparison_.combined) {
      if (of_base.Find(kernel.name) == nullptr) {
        add(nullptr, &kernel);
      }
    }
  }

  // A kind of work, and how it was shared out between the two kinds of units.
  void AddSplit(const std::string& name, Bucket OverallTimes::*cube, Bucket OverallTimes::*vector,
                std::string_view cube_name, std::string_view vector_name) {
    Row("\t" + name, Of(base_.*cube + base_.*vector), Of(comparison_.*cube + comparison_.*vector),
        Shade::kLightSky);
    Row(fmt::format("\t\t{} ({})", name, cube_name), Of(base_.*cube), Of(comparison_.*cube),
        Shade::kNone);
    Row(fmt::format("\t\t{} ({})", name, vector_name), Of(base_.*vector), Of(comparison_.*vector),
        Shade::kNone);
  }

  void AddComputing() {
    using Times = OverallTimes;
    AddSplit("Flash Attention (Forward)", &Times::flash_forward_cube, &Times::flash_forward_vector,
             "Cube", "Vector");
    AddSplit("Flash Attention (Backward)", &Times::flash_backward_cube,
             &Times::flash_backward_vector, "Cube", "Vector");
    AddSplit("Conv (Forward)", &Times::conv_forward_cube, &Times::conv_forward_vector, "Cube",
             "Vector");
    AddSplit("Conv (Backward)", &Times::conv_backward_cube, &Times::conv_backward_vector, "Cube",
             "Vector");
    AddSplit("Matmul", &Times::matmul_cube, &Times::matmul_vector, "Cube", "Vector");
    Row("\tPage Attention", Of(base_.paged_attention), Of(comparison_.paged_attention),
        Shade::kLightSky);
    AddSplit("Vector", &Times::vector_trans, &Times::vector_no_trans, "Trans", "No Trans");
    Row("\tCube", Of(base_.other_cube), Of(comparison_.other_cube), Shade::kLightSky);
    Row("\tSDMA (Tensor Move)", Of(base_.tensor_move), Of(comparison_.tensor_move),
        Shade::kLightSky);
    Row("\tOther", Other(base_), Other(comparison_), Shade::kLightSky);
  }

  void AddGroup(const std::string& title, const GroupTime* base, const GroupTime* comparison) {
    const GroupTime none;
    const GroupTime& first = base != nullptr ? *base : none;
    const GroupTime& second = comparison != nullptr ? *comparison : none;
    Row("\t" + title, Time(first.wait_ms + first.transmit_ms),
        Time(second.wait_ms + second.transmit_ms), Shade::kLightSky);
    Row("\t\tWait", Time(first.wait_ms), Time(second.wait_ms), Shade::kNone);
    Row("\t\tTransmit", Time(first.transmit_ms), Time(second.transmit_ms), Shade::kNone);
  }

  // First by the name of their kind of parallelism, where that names one group on either side;
  // the others by their own name.
  void AddGroups() {
    using Groups = std::vector<const GroupTime*>;
    const auto by = [](const OverallTimes& times, std::string GroupTime::*name) {
      std::unordered_map<std::string_view, Groups> groups;
      for (const GroupTime& group : times.groups) {
        groups[group.*name].push_back(&group);
      }
      return groups;
    };
    const auto base_kinds = by(base_, &GroupTime::parallel_name);
    const auto comparison_kinds = by(comparison_, &GroupTime::parallel_name);
    std::unordered_set<const GroupTime*> done;
    for (const GroupTime& group : base_.groups) {
      if (group.parallel_name.empty() || base_kinds.at(group.parallel_name).size() != 1) {
        continue;
      }
      const auto others = comparison_kinds.find(group.parallel_name);
      if (others != comparison_kinds.end() && others->second.size() == 1) {
        AddGroup(group.parallel_name + ": Communication", &group, others->second[0]);
        done.insert(&group);
        done.insert(others->second[0]);
      }
    }
    const auto is_done = [&](const GroupTime& group) { return done.find(&group) != done.end(); };
    const auto title = [](const GroupTime& group) {
      return group.parallel_name.empty() ? group.name
                                         : fmt::format("{}: {}", group.parallel_name, group.name);
    };
    std::unordered_map<std::string_view, std::deque<const GroupTime*>> others;
    for (const GroupTime& group : comparison_.groups) {
      if (!is_done(group)) {
        others[group.name].push_back(&group);
      }
    }
    for (const GroupTime& group : base_.groups) {
      if (is_done(group)) {
        continue;
      }
      const GroupTime* match = nullptr;
      if (const auto same = others.find(group.name);
          same != others.end() && !same->second.empty()) {
        match = same->second.front();
        same->second.pop_front();
        done.insert(match);
      }
      AddGroup(title(group), &group, match);
    }
    for (const GroupTime& group : comparison_.groups) {
      if (!is_done(group)) {
        AddGroup(title(group), nullptr, &group);
      }
    }
  }

  void AddOverlaps() {
    const auto sum = [](const OverallTimes& times) {
      double ms = 0;
      for (const GroupOverlap& overlap : times.overlaps) {
        ms += overlap.ms;
      }
      return Time(ms);
    };
    Row("\tUncovered Communication Overlapped", sum(base_), sum(comparison_), Shade::kLightSky);
    const auto title = [](const GroupOverlap& overlap) {
      return fmt::format("\t\t{} & {}", overlap.first, overlap.second);
    };
    const auto by_title = [&](const OverallTimes& times) {
      std::unordered_map<std::string, double> overlaps;  // the first one of a title
      for (const GroupOverlap& overlap : times.overlaps) {
        overlaps.emplace(title(overlap), overlap.ms);
      }
      return overlaps;
    };
    const auto base_overlaps = by_title(base_);
    const auto comparison_overlaps = by_title(comparison_);
    for (const GroupOverlap& overlap : base_.overlaps) {
      const auto other = comparison_overlaps.find(title(overlap));
      Row(title(overlap), Time(overlap.ms),
          Time(other == comparison_overlaps.end() ? 0 : other->second), Shade::kNone);
    }
    for (const GroupOverlap& overlap : comparison_.overlaps) {
      if (base_overlaps.find(title(overlap)) == base_overlaps.end()) {
        Row(title(overlap), Time(0), Time(overlap.ms), Shade::kNone);
      }
    }
  }

  const OverallTimes& base_;
  const OverallTimes& comparison_;
  report::FormattedTable sheet_;
};

}  // namespace

report::FormattedTable OverallSheet(const OverallTimes& base, const OverallTimes& comparison,
                                    const PairOptions& options) {
  if (base.end_to_end_s == 0 || comparison.end_to_end_s == 0) {
    return {};
  }
  return OverallRows(base, comparison, options).Build();
}

}  // namespace msprobe::analysis::perf
