// Each rank judged what it sees alone and wrote laws.csv; for the rest it left a few numbers for
// each parameter and step (laws_ranks.bin, which tools/python/msprobe/pytorch/monitor/laws/ranks.py
// describes). Here the ranks whose optimizers have the same parameters are put side by side:
//
//   1. Which parameters are copies of each other. DistributedDataParallel says so. Else those that
//      have equal values when the run begins and gradients that come out equal, where the ranks
//      exchange tensors in their steps: a model's shards differ from the beginning, and trainings
//      that have nothing to do with each other exchange nothing. Norms and routers are copies as
//      soon as they are equal. What is a shard or an expert is none.
//   2. replica: values, gradients and moments of copies are equal to the bit, for each rank
//   computes
//      them in the same way from the same numbers.
//   3. reduction: the gradient that the optimizers are given is one factor times the sum of what
//      autograd accumulated on the ranks. Both are known by two sums with fixed weights; rounding
//      is bounded by the sum of the absolute values. The factor is the same for all parameters.
//   4. clip_norm: ranks clip by one norm; a sum of squares over ranks has each shard once and each
//      copy once; with shards the factor that was applied is that of the whole norm.
//
// The first break of a parameter is reported: what follows is its consequence. Files are mapped and
// read step by step, and every length in them is checked.
#include "src/analysis/monitor/laws/laws.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/document.h"
#include "src/monitor/settings.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;
using json::Json;

constexpr uint32_t kNamesBlock = 1;
constexpr uint32_t kStepBlock = 2;
constexpr size_t kMostParameters = 4'000'000;
constexpr size_t kMostRowsOfAStep = 16;
constexpr std::string_view kCsvName = "laws.csv";

enum RankFlag : uint32_t {
  kHasGradient = 1,
  kConstant = 2,
  kShard = 4,
  kCopy = 8,
  kExpert = 16,
  kEverywhere = 32,
  kSumKnown = 64,
  kExcepted = 128
};

// One step of one optimizer of one rank.
struct RankStep {
  std::vector<uint32_t> value, after, gradient, state, flags;
  std::array<std::vector<double>, 4> sums;
  std::vector<double> size, squares;
  Json extra;
};

struct RankNames {
  std::vector<std::string> names;
  std::vector<int64_t> copies;  // ranks that DistributedDataParallel keeps equal to this one
};

// The file of a rank: where the steps of each optimizer are in it.
struct RankFile {
  int64_t rank = 0;
  fs::path folder;
  base::FileBytes bytes;
  std::vector<std::string> laws;
  std::map<uint32_t, RankNames> parts;
  std::map<std::pair<int64_t, uint32_t>, std::pair<size_t, size_t>> steps;  // offset, length
};

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  template <typename Number>
  bool Take(Number& number) {
    if (text_.size() < sizeof(Number)) {
      return false;
    }
    std::memcpy(&number, text_.data(), sizeof(Number));
    text_.remove_prefix(sizeof(Number));
    return true;
  }
  template <typename Number>
  bool Take(std::vector<Number>& numbers, size_t count) {
    if (text_.size() / sizeof(Number) < count) {
      return false;
    }
    numbers.resize(count);
    std::memcpy(numbers.data(), text_.data(), count * sizeof(Number));
    text_.remove_prefix(count * sizeof(Number));
    return true;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

std::vector<int64_t> IntegersOf(const Json& list) {
  std::vector<int64_t> numbers;
  for (const Json& item : json::ItemsOf(list)) {
    numbers.push_back(json::IntOf(item));
  }
  return numbers;
}

void TakeNames(std::string_view text, RankFile& file) {
  const Result<Json> told = json::ParseDocument(text);
  if (!told.ok()) {
    return;
  }
  RankNames names;
  for (const Json& name : json::ItemsOf(json::Member(*told, "names"))) {
    names.names.push_back(json::TextOf(name));
  }
  for (const Json& group : json::ItemsOf(json::Member(*told, "copies"))) {
    names.copies = IntegersOf(group);
  }
  for (const Json& law : json::ItemsOf(json::Member(*told, "laws"))) {
    file.laws.push_back(json::TextOf(law));
  }
  file.parts[static_cast<uint32_t>(json::IntOf(json::Member(*told, "part")))] = std::move(names);
}

// The blocks of a file that are whole: a run that was killed may have left half of one.
std::optional<RankFile> OpenRankFile(const RankFolder& folder) {
  RankFile file;
  file.rank = folder.rank;
  file.folder = folder.path;
  const fs::path path = folder.path / "laws_ranks.bin";
  if (!base::Exists(path)) {
    return std::nullopt;
  }
  Result<base::FileBytes> bytes = base::FileBytes::Open(path);
  if (!bytes.ok()) {
    return std::nullopt;
  }
  file.bytes = *std::move(bytes);
  const std::string_view text = file.bytes.text();
  size_t at = 0;
  while (text.size() - at >= 8) {
    Cursor head(text.substr(at, 8));
    uint32_t kind = 0;
    uint32_t length = 0;
    head.Take(kind);
    head.Take(length);
    if (length > text.size() - at - 8) {
      break;
    }
    const std::string_view content = text.substr(at + 8, length);
    if (kind == kNamesBlock) {
      TakeNames(content, file);
    } else if (kind == kStepBlock) {
      Cursor cursor(content);
      int64_t step = 0;
      uint32_t part = 0;
      if (cursor.Take(step) && cursor.Take(part)) {
        file.steps[{step, part}] = {at + 8, length};
      }
    }
    at += 8 + static_cast<size_t>(length);
  }
  return file;
}

std::optional<RankStep> ReadStep(const RankFile& file, int64_t step, uint32_t part) {
  const auto found = file.steps.find({step, part});
  if (found == file.steps.end()) {
    return std::nullopt;
  }
  Cursor cursor(file.bytes.text().substr(found->second.first, found->second.second));
  RankStep read;
  uint32_t count = 0;
  int64_t number = 0;
  uint32_t of_part = 0;
  bool whole = cursor.Take(number) && cursor.Take(of_part) && cursor.Take(count) &&
               count <= kMostParameters && count == file.parts.at(part).names.size();
  for (std::vector<uint32_t>* const column :
       {&read.value, &read.after, &read.gradient, &read.state, &read.flags}) {
    whole = whole && cursor.Take(*column, count);
  }
  for (std::vector<double>& column : read.sums) {
    whole = whole && cursor.Take(column, count);
  }
  whole = whole && cursor.Take(read.size, count) && cursor.Take(read.squares, count);
  uint32_t length = 0;
  if (!whole || !cursor.Take(length) || cursor.rest().size() != length) {
    return std::nullopt;
  }
  Result<Json> extra = json::ParseDocument(cursor.rest());
  if (extra.ok()) {
    read.extra = *std::move(extra);
  }
  return read;
}

std::string RanksText(const std::vector<int64_t>& ranks) {
  std::string text;
  for (const int64_t rank : ranks) {
    text += (text.empty() ? "" : " ") + fmt::format("{}", rank);
  }
  return text;
}

std::string ShownNumber(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "";
}

// A median of few numbers.
double MiddleOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : values[values.size() / 2];
}

// Ranks whose optimizers have the same parameters, step by step.
class RankJoin {
 public:
  RankJoin(std::vector<const RankFile*> files, uint32_t part, std::vector<BrokenLaw>& broken,
           std::map<std::string, uint64_t, std::less<>>& checked)
      : files_(std::move(files)),
        part_(part),
        names_(files_.front()->parts.at(part).names),
        broken_(broken),
        checked_(checked) {
    for (const RankFile* const file : files_) {
      ranks_.push_back(file->rank);
    }
  }

  void Run() {
    for (const auto& [key, place] : files_.front()->steps) {
      if (key.second != part_) {
        continue;
      }
      std::vector<RankStep> steps;
      for (const RankFile* const file : files_) {
        std::optional<RankStep> read = ReadStep(*file, key.first, part_);
        if (!read) {
          break;
        }
        steps.push_back(*std::move(read));
      }
      if (steps.size() == files_.size()) {
        Judge(key.first, steps);
      }
    }
  }

 private:
  enum class Kind : uint8_t { kUnknown, kCopies, kOther };
  struct Copies {
    std::vector<size_t> members;  // places among files_
    Kind kind = Kind::kUnknown;
  };

  bool Wants(std::string_view law) const {
    const std::vector<std::string>& laws = files_.front()->laws;
    return std::find(laws.begin(), laws.end(), law) != laws.end();
  }

  void Break(int64_t step, std::string_view law, size_t parameter,
             const std::vector<size_t>& members, double value, double expected, std::string text) {
    if (!Wants(law)) {
      return;
    }
    size_t& told = told_in_step_[{step, std::string(law)}];
    if (++told > kMostRowsOfAStep) {
      return;
    }
    BrokenLaw row;
    row.step = step;
    row.law = law;
    row.name = parameter < names_.size() ? names_[parameter] : "";
    std::vector<int64_t> ranks;
    ranks.reserve(members.size());
    for (const size_t member : members) {
      ranks.push_back(ranks_[member]);
    }
    row.ranks = RanksText(ranks);
    row.value = ShownNumber(value);
    row.expected = ShownNumber(expected);
    row.ratio = expected != 0 ? ShownNumber(value / expected) : "";
    row.text = std::move(text);
    broken_.push_back(std::move(row));
  }

  std::vector<size_t> All() const {
    std::vector<size_t> all(files_.size());
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = i;
    }
    return all;
  }

  // The sets of ranks that start with equal values, or that are said to be copies.
  void FindCopies(const std::vector<RankStep>& steps) {
    copies_.resize(names_.size());
    for (size_t p = 0; p < names_.size(); ++p) {
      std::map<std::pair<bool, uint64_t>, std::vector<size_t>> sets;
      for (size_t i = 0; i < steps.size(); ++i) {
        const uint32_t flags = steps[i].flags[p];
        const bool declared = (flags & kCopy) != 0;
        if ((flags & (kShard | kExcepted)) != 0 || (!declared && (flags & kExpert) != 0)) {
          continue;
        }
        const std::vector<int64_t>& said = files_[i]->parts.at(part_).copies;
        const uint64_t key =
            declared && !said.empty()
                ? static_cast<uint64_t>(*std::min_element(said.begin(), said.end()))
                : steps[i].value[p];
        sets[{declared, key}].push_back(i);
      }
      for (auto& [key, members] : sets) {
        if (members.size() > 1) {
          copies_[p].push_back({std::move(members), key.first ? Kind::kCopies : Kind::kUnknown});
        }
      }
    }
  }

  // Whether the ranks of a set exchange tensors within their steps, and not with one neighbour.
  bool Exchange(const std::vector<RankStep>& steps, const std::vector<size_t>& members) const {
    for (const size_t member : members) {
      const Json& extra = steps[member].extra;
      if (json::IntOf(json::Member(extra, "pairs")) > 0) {
        return false;
      }
      bool found = false;
      for (const Json& group : json::ItemsOf(json::Member(extra, "groups"))) {
        const auto pair = json::ItemsOf(group);
        const std::vector<int64_t> ranks =
            pair.empty() ? std::vector<int64_t>() : IntegersOf(pair[0]);
        found = found || std::all_of(members.begin(), members.end(), [&](size_t other) {
                  return std::find(ranks.begin(), ranks.end(), ranks_[other]) != ranks.end();
                });
      }
      if (!found) {
        return false;
      }
    }
    return true;
  }

  static bool AreEqual(const std::vector<RankStep>& steps, const std::vector<size_t>& members,
                       std::vector<uint32_t> RankStep::*column, size_t p) {
    return std::all_of(members.begin(), members.end(), [&](size_t member) {
      return (steps[member].*column)[p] == (steps[members[0]].*column)[p];
    });
  }

  static bool AllHave(const std::vector<RankStep>& steps, const std::vector<size_t>& members,
                      size_t p, uint32_t flag) {
    return std::all_of(members.begin(), members.end(),
                       [&](size_t member) { return (steps[member].flags[p] & flag) != 0; });
  }

  // Sets without a declaration, when the run begins: see 1. above.
  void Decide(const std::vector<RankStep>& steps) {
    std::map<std::vector<size_t>, std::array<size_t, 3>> votes;  // telling ones, equal, all with it
    for (size_t p = 0; p < names_.size(); ++p) {
      for (const Copies& set : copies_[p]) {
        if (set.kind == Kind::kUnknown && AllHave(steps, set.members, p, kHasGradient)) {
          std::array<size_t, 3>& vote = votes[set.members];
          const bool tells = (steps[set.members[0]].flags[p] & kConstant) == 0;
          vote[0] += tells ? 1 : 0;
          vote[1] += tells && AreEqual(steps, set.members, &RankStep::gradient, p) ? 1 : 0;
          ++vote[2];
        }
      }
    }
    for (size_t p = 0; p < names_.size(); ++p) {
      for (Copies& set : copies_[p]) {
        if (set.kind != Kind::kUnknown) {
          continue;
        }
        if (!AllHave(steps, set.members, p, kHasGradient)) {
          continue;  // until it has one
        }
        const std::array<size_t, 3> vote = votes[set.members];
        const bool exchange = Exchange(steps, set.members);
        const bool everywhere = (steps[set.members[0]].flags[p] & kEverywhere) != 0;
        const bool tells = (steps[set.members[0]].flags[p] & kConstant) == 0;
        const bool equal = AreEqual(steps, set.members, &RankStep::gradient, p);
        const bool replicated = vote[0] > 0 && vote[1] * 2 >= vote[0];
        const bool mostly = vote[2] * 2 >= names_.size();
        set.kind = exchange && (everywhere || (tells && (replicated || equal)) ||
                                (!tells && replicated && mostly))
                       ? Kind::kCopies
                       : Kind::kOther;
      }
    }
  }

  // The members that differ from most; all of them where neither side is larger.
  std::vector<size_t> Deviants(const std::vector<RankStep>& steps,
                               const std::vector<size_t>& members,
                               std::vector<uint32_t> RankStep::*column, size_t p,
                               size_t& usual) const {
    std::map<uint32_t, std::vector<size_t>> sides;
    for (const size_t member : members) {
      sides[(steps[member].*column)[p]].push_back(member);
    }
    const auto largest = std::max_element(
        sides.begin(), sides.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    usual = largest->second.front();
    if (largest->second.size() * 2 <= members.size()) {
      usual = members.front();
      return members;
    }
    std::vector<size_t> others;
    std::copy_if(members.begin(), members.end(), std::back_inserter(others), [&](size_t member) {
      return std::find(largest->second.begin(), largest->second.end(), member) ==
             largest->second.end();
    });
    return others;
  }

  void CheckReplicas(int64_t step, const std::vector<RankStep>& steps) {
    struct Row {
      std::vector<uint32_t> RankStep::*column;
      std::string_view what;
    };
    constexpr std::array<Row, 4> kRows = {
        {{&RankStep::value, "the parameter has different values on ranks that hold copies of it"},
         {&RankStep::gradient, "the optimizers of copies are given different gradients"},
         {&RankStep::state, "the optimizer states of copies differ"},
         {&RankStep::after, "after the update the copies of the parameter differ"}}};
    for (size_t p = 0; p < names_.size(); ++p) {
      for (const Copies& set : copies_[p]) {
        if (set.kind != Kind::kCopies || drifted_.contains({p, set.members[0]})) {
          continue;
        }
        ++checked_["replica"];
        for (const Row& row : kRows) {
          const bool of_gradient = row.column == &RankStep::gradient;
          if (AreEqual(steps, set.members, row.column, p) ||
              (of_gradient && !AllHave(steps, set.members, p, kHasGradient))) {
            continue;
          }
          size_t usual = 0;
          const std::vector<size_t> others = Deviants(steps, set.members, row.column, p, usual);
          const size_t shown = others.back();
          Break(step, "replica", p, others,
                of_gradient ? steps[shown].sums[2][p] : (steps[shown].*row.column)[p],
                of_gradient ? steps[usual].sums[2][p] : (steps[usual].*row.column)[p],
                std::string(row.what));
          drifted_.insert({p, set.members[0]});
          break;
        }
      }
    }
  }

  struct Factor {
    size_t parameter = 0;
    const Copies* set = nullptr;
    double value = 0;
    double bound = 0;  // relative
    bool is_multiple = false;
  };

  void CheckReductions(int64_t step, const std::vector<RankStep>& steps) {
    std::map<std::vector<size_t>, std::vector<Factor>> found;
    for (size_t p = 0; p < names_.size(); ++p) {
      for (const Copies& set : copies_[p]) {
        if (set.kind == Kind::kCopies && AllHave(steps, set.members, p, kSumKnown)) {
          AddFactor(steps, set, p, found[set.members]);
        }
      }
    }
    for (const auto& [members, factors] : found) {
      std::vector<double> values;
      for (const Factor& factor : factors) {
        if (factor.is_multiple) {
          values.push_back(factor.value);
        }
      }
      const double common = MiddleOf(values);
      const auto is_alike = [&](const Factor& factor) {
        return factor.is_multiple &&
               std::fabs(factor.value - common) <=
                   (1e-4 + 2 * factor.bound) * std::max(std::fabs(common), std::fabs(factor.value));
      };
      const auto alike =
          static_cast<size_t>(std::count_if(factors.begin(), factors.end(), is_alike));
      if (alike * 5 < factors.size() * 3) {
        continue;
      }
      checked_["reduction"] += factors.size();
      for (const Factor& factor : factors) {
        if (!is_alike(factor) && reduced_wrong_.insert({factor.parameter, members[0]}).second) {
          Break(step, "reduction", factor.parameter, members, factor.value, common,
                Explanation(steps, members, factor, common));
        }
      }
    }
  }

  void AddFactor(const std::vector<RankStep>& steps, const Copies& set, size_t p,
                 std::vector<Factor>& factors) const {
    std::array<double, 2> sum = {};
    double bound = 0;
    for (const size_t member : set.members) {
      sum[0] += steps[member].sums[0][p];
      sum[1] += steps[member].sums[1][p];
      bound += steps[member].size[p];
    }
    const double square = sum[0] * sum[0] + sum[1] * sum[1];
    bound *= static_cast<double>(set.members.size() + 2);
    if (!std::isfinite(square) || square <= 0 || std::sqrt(square) < 50 * bound) {
      return;
    }
    // Where gradients differ each rank's own is judged: one of them may be what it should be.
    Factor factor{p, &set, 0, bound / std::sqrt(square), true};
    for (const size_t member : set.members) {
      const std::array<double, 2> given = {steps[member].sums[2][p], steps[member].sums[3][p]};
      const double value = (given[0] * sum[0] + given[1] * sum[1]) / square;
      const double error = std::hypot(given[0] - value * sum[0], given[1] - value * sum[1]);
      factor.is_multiple =
          factor.is_multiple && std::isfinite(value) &&
          error <= std::fabs(value) * 4 * bound + 1e-6 * std::fabs(value) * std::sqrt(square);
      factor.value = member == set.members[0] ? value : factor.value;
      if (factor.is_multiple &&
          std::fabs(value - factor.value) > (1e-4 + factor.bound) * std::fabs(value)) {
        factor.is_multiple = false;
      }
    }
    factors.push_back(factor);
  }

  static std::string Explanation(const std::vector<RankStep>& steps,
                                 const std::vector<size_t>& members, const Factor& factor,
                                 double common) {
    const auto count = static_cast<double>(members.size());
    const size_t p = factor.parameter;
    const bool is_own = std::all_of(members.begin(), members.end(), [&](size_t member) {
      const RankStep& step = steps[member];
      const double square = step.sums[0][p] * step.sums[0][p] + step.sums[1][p] * step.sums[1][p];
      const double value =
          (step.sums[2][p] * step.sums[0][p] + step.sums[3][p] * step.sums[1][p]) / square;
      return std::isfinite(value) && std::hypot(step.sums[2][p] - value * step.sums[0][p],
                                                step.sums[3][p] - value * step.sums[1][p]) <=
                                         1e-5 * std::sqrt(square) * std::fabs(value);
    });
    if (is_own && !factor.is_multiple) {
      return "the gradient was not reduced: every rank has its own alone";
    }
    if (!factor.is_multiple) {
      return "the gradient is not a multiple of the sum of what went in, those of the others are";
    }
    const double ratio = factor.value / common;
    if (std::fabs(ratio * count - 1) < 1e-3) {
      return fmt::format("the gradient is divided by the {} ranks once more than the others",
                         count);
    }
    if (std::fabs(ratio / count - 1) < 1e-3) {
      return fmt::format(
          "the gradient is {} times what it is for the others: a sum among means, "
          "or reduced twice",
          count);
    }
    return fmt::format(
        "the gradient is {:.6g} times the sum of what went in, for the others {:.6g}", factor.value,
        common);
  }

  // 4. above, of PyTorch's function.
  void CheckClips(int64_t step, const std::vector<RankStep>& steps, bool is_one_training) {
    const size_t count = json::ItemsOf(json::Member(steps[0].extra, "clips")).size();
    for (size_t clip = 0; clip < count; ++clip) {
      std::vector<std::array<double, 5>> rows;  // total, local, most, factor, applied
      bool sharded = false;
      for (const RankStep& one : steps) {
        const auto clips = json::ItemsOf(json::Member(one.extra, "clips"));
        if (clips.size() != count || json::ItemsOf(clips[clip]).size() < 6) {
          return;
        }
        const auto row = json::ItemsOf(clips[clip]);
        const auto number = [&row](size_t i) {
          return row[i].is_number() ? json::NumberOf(row[i])
                                    : std::numeric_limits<double>::quiet_NaN();
        };
        rows.push_back({number(0), number(1), number(2), number(3), number(5)});
        sharded = sharded || json::BoolOf(row[4]);
      }
      ++checked_["clip_norm"];
      double squares = 0;
      double least = rows[0][0];
      double most = rows[0][0];
      std::vector<double> locals;
      for (const auto& row : rows) {
        squares += row[1] * row[1];
        least = std::fmin(least, row[0]);
        most = std::fmax(most, row[0]);
        locals.push_back(row[1]);
      }
      const double whole = std::sqrt(squares);
      if (std::isfinite(least) && most - least > 1e-4 * most && (is_one_training || sharded)) {
        Break(step, "clip_norm", names_.size(), All(), least, sharded ? whole : most,
              sharded ? "each rank clips by the norm of its own shards, not by that of all"
                      : "the ranks of one model clip by different norms");
        continue;
      }
      const bool all_alike = *std::max_element(locals.begin(), locals.end()) -
                                 *std::min_element(locals.begin(), locals.end()) <=
                             1e-6 * whole;
      if (!sharded || all_alike) {
        continue;
      }
      if (std::isfinite(most) && std::fabs(most - whole) > 1e-4 * whole) {
        Break(step, "clip_norm", names_.size(), All(), most, whole,
              "the norm that clips is not that of all shards, each counted once");
      } else if (std::isfinite(rows[0][4]) && rows[0][4] < 0.9999) {
        const double due = std::min(1.0, rows[0][2] / (whole + 1e-6));
        if (std::fabs(rows[0][4] / due - 1) > 1e-5) {
          Break(step, "clip_norm", names_.size(), All(), rows[0][4], due,
                "gradients were multiplied by another factor than the norm of all shards asks for");
        }
      }
    }
  }

  // The same of sums of squares that a script adds up over ranks itself.
  void CheckSums(int64_t step, const std::vector<RankStep>& steps) {
    const size_t count = json::ItemsOf(json::Member(steps[0].extra, "scalars")).size();
    double due = 0;
    std::vector<double> own(steps.size(), 0);
    bool has_shards = false;
    for (size_t p = 0; p < names_.size(); ++p) {
      if (!AllHave(steps, All(), p, kHasGradient)) {
        continue;
      }
      // Shards may have equal gradients, too: where all ranks see the same rows.
      const bool equal = AreEqual(steps, All(), &RankStep::gradient, p) &&
                         AreEqual(steps, All(), &RankStep::value, p);
      has_shards = has_shards || !equal;
      for (size_t i = 0; i < steps.size(); ++i) {
        own[i] += steps[i].squares[p];
        due += equal && i > 0 ? 0 : steps[i].squares[p];
      }
    }
    if (!std::isfinite(due) || due <= 0 || !has_shards) {
      return;
    }
    for (size_t scalar = 0; scalar < count; ++scalar) {
      bool is_a_norm = false;
      double result = 0;
      for (size_t i = 0; i < steps.size(); ++i) {
        const auto scalars = json::ItemsOf(json::Member(steps[i].extra, "scalars"));
        if (scalars.size() != count || json::ItemsOf(scalars[scalar]).size() < 4) {
          return;
        }
        const auto row = json::ItemsOf(scalars[scalar]);
        if (json::ItemsOf(row[0]).size() != steps.size() || json::IntOf(row[1]) != 0) {
          return;
        }
        is_a_norm = is_a_norm || std::fabs(json::NumberOf(row[2]) - own[i]) <= 1e-4 * own[i];
        result = json::NumberOf(row[3]);
      }
      if (!is_a_norm) {
        continue;
      }
      ++checked_["clip_norm"];
      if (std::fabs(result - due) > 2e-4 * due) {
        Break(step, "clip_norm", names_.size(), All(), std::sqrt(std::fabs(result)), std::sqrt(due),
              result < due ? "the norm over ranks leaves out shards: some count on one rank alone"
                           : "the norm over ranks counts copies more than once");
      }
    }
  }

  // Collectives that were asked for a sum or a mean.
  void CheckCalls(int64_t step, const std::vector<RankStep>& steps) {
    const size_t count = json::ItemsOf(json::Member(steps[0].extra, "calls")).size();
    for (size_t call = 0; call < count; ++call) {
      std::vector<std::span<const Json>> rows;
      for (const RankStep& one : steps) {
        const auto calls = json::ItemsOf(json::Member(one.extra, "calls"));
        if (calls.size() != count || json::ItemsOf(calls[call]).size() < 8) {
          return;
        }
        rows.push_back(json::ItemsOf(calls[call]));
        if (json::ItemsOf(rows.back()[0]).size() != steps.size()) {
          return;
        }
      }
      ++checked_["reduction"];
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto place = static_cast<size_t>(std::max<int64_t>(json::IntOf(rows[i][3]), 0));
        double sum = 0;
        double bound = 0;
        for (const auto& row : rows) {
          const auto parts = json::ItemsOf(row[4]);
          sum += place < parts.size() ? json::NumberOf(parts[place]) : 0;
          bound += json::NumberOf(row[6]) * json::NumberOf(row[7]);
        }
        const bool is_mean = json::IntOf(rows[i][1]) == 1;
        const double due = is_mean ? sum / static_cast<double>(rows.size()) : sum;
        const double got = json::NumberOf(rows[i][5]);
        bound *= static_cast<double>(rows.size() + 8);
        if (std::isfinite(got) && std::isfinite(due) && std::fabs(due) > 50 * bound &&
            std::fabs(got - due) > bound + 1e-5 * std::fabs(due)) {
          Break(
              step, "reduction", names_.size(), {i}, got, due,
              fmt::format("collective {} of the step was asked for a {} and gave {:.6g} times that",
                          call, is_mean ? "mean" : "sum", got / due));
          break;
        }
      }
    }
  }

  void Judge(int64_t step, const std::vector<RankStep>& steps) {
    if (copies_.empty()) {
      FindCopies(steps);
    }
    Decide(steps);
    CheckReductions(step, steps);
    CheckReplicas(step, steps);
    const bool is_one_training = std::any_of(copies_.begin(), copies_.end(), [](const auto& sets) {
      return std::any_of(sets.begin(), sets.end(),
                         [](const Copies& set) { return set.kind == Kind::kCopies; });
    });
    CheckClips(step, steps, is_one_training);
    CheckSums(step, steps);
    CheckCalls(step, steps);
  }

  std::vector<const RankFile*> files_;
  uint32_t part_;
  const std::vector<std::string>& names_;
  std::vector<int64_t> ranks_;
  std::vector<std::vector<Copies>> copies_;  // by parameter
  std::set<std::pair<size_t, size_t>> drifted_, reduced_wrong_;
  std::map<std::pair<int64_t, std::string>, size_t> told_in_step_;
  std::vector<BrokenLaw>& broken_;
  std::map<std::string, uint64_t, std::less<>>& checked_;
};

std::string Quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos) {
    return cell;
  }
  std::string text = "\"";
  for (const char character : cell) {
    text += character == '"' ? "\"\"" : std::string(1, character);
  }
  return text + "\"";
}

std::string RowOf(const BrokenLaw& law) {
  return fmt::format("{},{},{},{},{},{},{},{}", law.step, law.law, Quoted(law.name), law.ranks,
                     law.value, law.expected, law.ratio, Quoted(law.text));
}

// Rows of the file of a rank.
void ReadRows(const fs::path& path, std::vector<BrokenLaw>& broken, std::set<std::string>& lines) {
  const Result<base::FileBytes> bytes = base::FileBytes::Open(path);
  if (!bytes.ok()) {
    return;
  }
  base::CsvTokenizer rows(bytes->text());
  bool is_header = true;
  while (rows.Next() == base::CsvTokenizer::Row::kFields) {
    const auto fields = rows.fields();
    if (!is_header && fields.size() >= 8) {
      BrokenLaw law;
      law.step = base::ParseInt(fields[0]).value_or(-1);
      const std::array<std::string*, 7> cells = {&law.law,      &law.name,  &law.ranks, &law.value,
                                                 &law.expected, &law.ratio, &law.text};
      for (size_t i = 0; i < cells.size(); ++i) {
        *cells[i] = std::string(fields[i + 1]);
      }
      lines.insert(RowOf(law));
      broken.push_back(std::move(law));
    }
    is_header = false;
  }
}

void ReadCounts(const fs::path& path, std::map<std::string, uint64_t, std::less<>>& checked) {
  const Result<base::FileBytes> bytes = base::FileBytes::Open(path);
  if (!bytes.ok()) {
    return;
  }
  const Result<Json> told = json::ParseDocument(bytes->text());
  if (!told.ok()) {
    return;
  }
  for (const auto& [law, entry] : json::Member(*told, "laws").items()) {
    checked[law] +=
        static_cast<uint64_t>(std::max<int64_t>(json::IntOf(json::Member(entry, "checked")), 0));
  }
}

size_t PlaceOf(std::string_view law) {
  const auto& names = msprobe::monitor::kLawNames;
  return static_cast<size_t>(std::find(names.begin(), names.end(), law) - names.begin());
}

// The folders of one run after the other: a rank that was started again has several.
std::vector<std::vector<RankFile>> RunsOf(const std::vector<RankFolder>& folders) {
  std::vector<std::vector<RankFile>> runs;
  std::map<int64_t, size_t> seen;
  for (const RankFolder& folder : folders) {
    std::optional<RankFile> file = OpenRankFile(folder);
    if (file) {
      const size_t run = seen[file->rank]++;
      runs.resize(std::max(runs.size(), run + 1));
      runs[run].push_back(*std::move(file));
    }
  }
  return runs;
}

}  // namespace

std::string BrokenLaw::Sentence() const {
  const bool several = ranks.find(' ') != std::string::npos;
  return fmt::format("law {} is broken in step {} on {} {}{}: {}", law, step,
                     several ? "ranks" : "rank", ranks,
                     name.empty() ? "" : ", " + base::Printable(name), base::Printable(text));
}

std::vector<BrokenLaw> ReadLawsOfRank(const fs::path& folder) {
  std::vector<BrokenLaw> broken;
  std::set<std::string> lines;
  ReadRows(folder / kCsvName, broken, lines);
  return broken;
}

Result<LawsOfRun> ReadLaws(const fs::path& root) {
  const fs::path top = root.filename() == "anomaly_detected" ? root.parent_path() : root;
  LawsOfRun laws;
  const Result<std::vector<RankFolder>> folders = FindRankFolders(top);
  if (!folders.ok()) {
    return laws;
  }
  std::map<fs::path, std::set<std::string>> lines;
  for (const RankFolder& folder : *folders) {
    if (base::Exists(folder.path / kCsvName)) {
      laws.were_checked = true;
      ReadRows(folder.path / kCsvName, laws.broken, lines[folder.path]);
      ReadCounts(folder.path / "laws.json", laws.checked);
    }
  }
  for (const std::vector<RankFile>& run : RunsOf(*folders)) {
    std::map<std::pair<uint32_t, std::vector<std::string>>, std::vector<const RankFile*>> alike;
    for (const RankFile& file : run) {
      for (const auto& [part, names] : file.parts) {
        alike[{part, names.names}].push_back(&file);
      }
    }
    std::vector<BrokenLaw> joined;
    for (const auto& [key, files] : alike) {
      if (files.size() > 1 && !key.second.empty()) {
        RankJoin(files, key.first, joined, laws.checked).Run();
      }
    }
    for (BrokenLaw& law : joined) {
      const int64_t first = base::ParseInt(law.ranks.substr(0, law.ranks.find(' '))).value_or(0);
      const auto file = std::find_if(run.begin(), run.end(),
                                     [&](const RankFile& one) { return one.rank == first; });
      if (file == run.end() || !lines[file->folder].insert(RowOf(law)).second) {
        continue;
      }
      const fs::path path = file->folder / kCsvName;
      const bool is_new = !base::Exists(path);
      std::ofstream out(path, std::ios::app | std::ios::binary);
      out << (is_new ? "step,law,name,ranks,value,expected,ratio,text\n" : "") << RowOf(law)
          << "\n";
      if (!out.flush()) {
        laws.warnings.push_back(fmt::format("{} could not be written", path.string()));
      }
      laws.broken.push_back(std::move(law));
    }
  }
  std::stable_sort(laws.broken.begin(), laws.broken.end(),
                   [](const BrokenLaw& a, const BrokenLaw& b) {
                     return std::tuple(a.step, PlaceOf(a.law)) < std::tuple(b.step, PlaceOf(b.law));
                   });
  return laws;
}

void AddLaws(const LawsOfRun& laws, size_t most, report::Document& document) {
  if (!laws.were_checked) {
    return;
  }
  report::List list{report::ListKind::kNamed, {}};
  for (size_t i = 0; i < std::min(most, laws.broken.size()); ++i) {
    list.items.push_back({fmt::format("{}", i), laws.broken[i].Sentence()});
  }
  report::List counts{report::ListKind::kFacts, {}};
  for (const auto& [law, count] : laws.checked) {
    const auto broken = static_cast<uint64_t>(
        std::count_if(laws.broken.begin(), laws.broken.end(),
                      [&law = law](const BrokenLaw& row) { return row.law == law; }));
    counts.items.push_back({law, fmt::format("{} checked, {} broken", base::FormatCount(count),
                                             base::FormatCount(broken))});
  }
  document.Add("Laws", std::move(counts));
  if (!list.items.empty()) {
    document.sections.back().blocks.insert(document.sections.back().blocks.begin(),
                                           std::move(list));
  }
  document.warnings.insert(document.warnings.end(), laws.warnings.begin(), laws.warnings.end());
}

}  // namespace msprobe::analysis::monitor
