// The answer: how much more is allocated and where, what the allocator cannot give back, what was
// never freed; for a page the stacks as a tree and how much was allocated over the record.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/memory/growth.h"
#include "src/base/strings.h"
#include "src/report/table.h"

namespace msprobe::analysis::memory {
namespace {

using report::Cell;

std::string SignedBytes(int64_t change) {
  return fmt::format("{}{}", change < 0 ? "-" : "+",
                     base::FormatBytes(static_cast<uint64_t>(change < 0 ? -change : change)));
}

// Where to look: the user's own line, or the innermost frame.
std::string PlaceOf(const StackGrowth& row) {
  return row.code.empty() ? row.stack.substr(0, row.stack.find(kBetweenFrames)) : row.code;
}

report::Verdict MakeVerdict(const Growth& growth) {
  report::Verdict verdict;
  const std::string largest = growth.rows.empty() ? "" : PlaceOf(growth.rows.front());
  const uint64_t after = growth.after.live.bytes;
  verdict.unit = "bytes";
  if (!growth.before) {
    verdict.number = static_cast<double>(after);
    verdict.Say("ALLOCATED",
                growth.rows.empty()
                    ? "nothing"
                    : fmt::format("{} in {}, {} of it by {}", base::FormatBytes(after),
                                  base::Plural(growth.after.live.blocks, "block"),
                                  base::FormatBytes(growth.rows.front().after.bytes), largest),
                report::Tone::kStrong);
    return verdict;
  }
  const uint64_t before = growth.before->live.bytes;
  const auto change = static_cast<int64_t>(after) - static_cast<int64_t>(before);
  verdict.number = static_cast<double>(change);
  const auto moved = std::count_if(growth.rows.begin(), growth.rows.end(),
                                   [](const StackGrowth& row) { return row.change() != 0; });
  const std::string sides =
      fmt::format("{} to {}", base::FormatBytes(before), base::FormatBytes(after));
  // The largest change in the direction of the whole.
  const auto cause = std::find_if(
      growth.rows.begin(), growth.rows.end(),
      [&](const StackGrowth& row) { return row.change() * (change < 0 ? -1 : 1) > 0; });
  if (change == 0) {
    verdict.Say(
        "SAME",
        moved == 0 ? fmt::format("{} allocated in both", base::FormatBytes(after))
                   : fmt::format("{} allocated in both; {} of {} changed", base::FormatBytes(after),
                                 moved, base::Plural(growth.rows.size(), "stack")),
        report::Tone::kGood);
  } else if (change > 0) {
    verdict.Say("GROWN",
                fmt::format("{}, {}; most by {} ({})", SignedBytes(change), sides, PlaceOf(*cause),
                            SignedBytes(cause->change())),
                report::Tone::kBad, report::AnswerOutcome::kFindings);
  } else {
    verdict.Say("SHRUNK",
                fmt::format("{}, {}; most by {} ({})", SignedBytes(change), sides, PlaceOf(*cause),
                            SignedBytes(cause->change())),
                report::Tone::kGood);
  }
  return verdict;
}

report::DataTable StackRows(const Growth& growth, size_t top) {
  const bool is_pair = growth.before.has_value();
  report::Table table(
      "stacks", is_pair ? std::vector<std::string>{"Change", "Before", "After", "Blocks", "Stack"}
                        : std::vector<std::string>{"Bytes", "Blocks", "Stack"});
  for (const StackGrowth& row : growth.rows) {
    if (is_pair && row.change() == 0) {
      continue;
    }
    std::vector<Cell> cells;
    if (is_pair) {
      cells.push_back(table.KeepText(SignedBytes(row.change())));
      cells.push_back(table.KeepText(base::FormatBytes(row.before.bytes)));
    }
    cells.push_back(table.KeepText(base::FormatBytes(row.after.bytes)));
    cells.push_back(Cell::Integer(static_cast<int64_t>(row.after.blocks)));
    cells.push_back(table.KeepText(row.stack));
    table.AddRow(cells);
  }
  report::DataTable rows{std::move(table)};
  rows.display_limit.items = top;
  rows.amounts = is_pair ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{0};
  return rows;
}

report::DataTable UnfreedRows(const Growth& growth, size_t top) {
  std::vector<const StackGrowth*> unfreed;
  for (const StackGrowth& row : growth.rows) {
    if (row.unfreed.blocks > 0) {
      unfreed.push_back(&row);
    }
  }
  std::stable_sort(unfreed.begin(), unfreed.end(), [](const auto* a, const auto* b) {
    return a->unfreed.bytes > b->unfreed.bytes;
  });
  report::Table table("unfreed", {"Bytes", "Blocks", "Stack"});
  for (const StackGrowth* row : unfreed) {
    table.AddRow(std::vector<Cell>{table.KeepText(base::FormatBytes(row->unfreed.bytes)),
                                   Cell::Integer(static_cast<int64_t>(row->unfreed.blocks)),
                                   table.KeepText(row->stack)});
  }
  report::DataTable rows{std::move(table)};
  rows.display_limit.items = top;
  rows.amounts = {0};
  return rows;
}

report::List Facts(const Growth& growth) {
  report::List facts{report::ListKind::kFacts, {}};
  const auto both = [&](const char* label, uint64_t Snapshot::*of) {
    facts.items.push_back(
        {label, growth.before ? fmt::format("{}, before {}", base::FormatBytes(growth.after.*of),
                                            base::FormatBytes((*growth.before).*of))
                              : base::FormatBytes(growth.after.*of)});
  };
  both("reserved", &Snapshot::reserved);
  both("free beside live blocks", &Snapshot::stuck);
  both("largest free block", &Snapshot::largest_free);
  const Snapshot& after = growth.after;
  const auto share = [](const Snapshot& of) {
    return of.reserved == 0
               ? 0.0
               : 100 * static_cast<double>(of.stuck) / static_cast<double>(of.reserved);
  };
  facts.items.push_back(
      {"fragmentation",
       growth.before ? fmt::format("{:.1f} %, before {:.1f} %", share(after), share(*growth.before))
                     : fmt::format("{:.1f} %", share(after))});
  if (after.events > 0) {
    facts.items.push_back({"recorded events", base::FormatCount(after.events)});
  }
  if (after.out_of_memory > 0) {
    facts.items.push_back(
        {"out of memory", base::Plural(after.out_of_memory, "time"), report::Tone::kBad});
  }
  return facts;
}

// Stacks from the outermost frame inwards, one node for a frame that several share.
report::Tree TreeOf(const Growth& growth) {
  constexpr size_t kMostNodes = 20'000;
  report::Tree tree;
  tree.unit = "bytes";
  std::map<std::pair<int64_t, std::string>, int64_t> node_of;
  for (const StackGrowth& row : growth.rows) {
    int64_t parent = -1;
    std::string_view rest = row.stack;
    while (!rest.empty() && tree.items.size() < kMostNodes) {
      const size_t at = rest.rfind(kBetweenFrames);
      const std::string label(
          at == std::string_view::npos ? rest : rest.substr(at + kBetweenFrames.size()));
      rest = at == std::string_view::npos ? std::string_view() : rest.substr(0, at);
      const auto [place, is_new] =
          node_of.try_emplace({parent, label}, static_cast<int64_t>(tree.items.size()));
      if (is_new) {
        tree.items.push_back({parent, label});
      }
      parent = place->second;
      report::Tree::Node& node = tree.items[static_cast<size_t>(parent)];
      node.first += static_cast<double>(growth.before ? row.before.bytes : 0);
      node.second += static_cast<double>(row.after.bytes);
    }
  }
  return tree;
}

report::Curves CurvesOf(const Snapshot& snapshot) {
  report::Curves curves;
  curves.unit = "bytes";
  curves.axis = "% of the recorded events";
  for (size_t point = 0; point < Snapshot::kPoints; ++point) {
    curves.positions.push_back(fmt::format("{}", point));
  }
  for (size_t device = 0; device < snapshot.curves.size(); ++device) {
    curves.items.push_back({fmt::format("device {}", device),
                            {snapshot.curves[device].begin(), snapshot.curves[device].end()}});
  }
  return curves;
}

}  // namespace

report::Document MakeDocument(const Growth& growth, size_t top) {
  report::Document document;
  document.command = "perf_compare";
  document.verdict = MakeVerdict(growth);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "grown", document.verdict.word == "GROWN");
  report::List sides{report::ListKind::kFacts, {}};
  for (const Snapshot* side : {growth.before ? &*growth.before : nullptr, &growth.after}) {
    if (side == nullptr) {
      continue;
    }
    if (growth.before) {
      sides.items.push_back({side == &growth.after ? "after" : "before", side->path.string()});
    }
    for (const std::string& warning : side->warnings) {
      document.warnings.push_back(side->path.string() + ": " + warning);
    }
  }
  if (!sides.items.empty()) {
    document.Add("", std::move(sides));
  }
  const char* const title = growth.before ? "What changed, by stack" : "The largest, by stack";
  document.Add(title, StackRows(growth, top));
  const bool has_unfreed =
      std::any_of(growth.rows.begin(), growth.rows.end(),
                  [](const StackGrowth& row) { return row.unfreed.blocks > 0; });
  if (has_unfreed) {
    document.Add("Allocated within the record and not freed", UnfreedRows(growth, top));
  }
  document.Add("Allocator", Facts(growth));
  document.files.push_back({growth.csv});
  report::PageView& page = document.page.emplace();
  page.Add("Stacks from the outermost call inwards", "", TreeOf(growth));
  if (!growth.after.curves.empty()) {
    page.Add("Allocated over the record", "the most in each hundredth of it",
             CurvesOf(growth.after));
  }
  page.Add(title, "", StackRows(growth, SIZE_MAX));
  if (has_unfreed) {
    page.Add("Allocated within the record and not freed", "", UnfreedRows(growth, SIZE_MAX));
  }
  page.Add("Allocator", "", Facts(growth));
  return document;
}

}  // namespace msprobe::analysis::memory
