#include "src/analysis/rl/token_view.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/rl/arrays.h"
#include "src/base/progress.h"
#include "src/base/strings.h"

namespace msprobe::analysis::rl {
namespace {

namespace fs = std::filesystem;

// For the first array, the second one and the mask.
using Scratch = std::array<std::vector<std::byte>, 3>;

// What stands beside the log-probabilities of a location: under the same member, or alone for all
// members.
const fs::path* FindBeside(const LocatedFiles& files, const ArrayLocation& location) {
  auto found = files.find(location);
  if (found == files.end()) {
    ArrayLocation alone = location;
    alone.member.clear();
    found = files.find(alone);
  }
  return found == files.end() ? nullptr : &found->second;
}

Status ComparePair(TokenPair& pair, size_t index, const TokenOptions& options,
                   const SavedData& first, Scratch& scratch, WorstTokens& worst) {
  std::optional<OpenArray> a;
  std::optional<OpenArray> b;
  if (pair.files.first) {
    MSP_ASSIGN_OR_RETURN(a, OpenSavedArray(*pair.files.first, scratch[0]));
    pair.first_shape = a->view.shape;
  }
  if (pair.files.second) {
    MSP_ASSIGN_OR_RETURN(b, OpenSavedArray(*pair.files.second, scratch[1]));
    pair.second_shape = b->view.shape;
  }
  if (!a || !b) {
    return {};
  }
  std::optional<OpenArray> mask;
  if (!options.mask.empty()) {
    const fs::path* path = FindBeside(first.keys.at(options.mask), pair.files.location);
    if (path == nullptr) {
      return NotFoundError(fmt::format("no mask: {} is not stored there", options.mask));
    }
    MSP_ASSIGN_OR_RETURN(mask, OpenSavedArray(*path, scratch[2]));
  }
  MSP_ASSIGN_OR_RETURN(pair.numbers,
                       CompareTokens(a->view, b->view, mask ? &mask->view : nullptr, index, worst));
  return {};
}

// Ids of the worst tokens that stand in `pair`.
Status ReadIds(const TokenPair& pair, std::span<const size_t> tokens, const fs::path* path,
               TokenComparison& comparison, std::vector<std::byte>& scratch) {
  if (path == nullptr) {
    return NotFoundError("nothing is stored there");
  }
  MSP_ASSIGN_OR_RETURN(const OpenArray ids, OpenSavedArray(*path, scratch));
  const Shape& shape = *pair.first_shape;
  if (ids.view.shape != shape) {
    return MismatchError(fmt::format("shape {}, the log-probabilities have {}",
                                     ShapeText(ids.view.shape), ShapeText(shape)));
  }
  BlockReader reader(ids.view);
  for (const size_t token : tokens) {
    const WorstToken& worst = comparison.worst[token];
    const int64_t length = shape.empty() ? 1 : shape.back();
    comparison.ids[token] = reader.Read(worst.sequence * length + worst.position, 1)[0];
  }
  return {};
}

void ReadAllIds(const std::string& key, const LocatedFiles& files, TokenComparison& comparison) {
  comparison.ids.resize(comparison.worst.size());
  std::map<size_t, std::vector<size_t>> tokens_of_pair;
  for (size_t token = 0; token < comparison.worst.size(); ++token) {
    tokens_of_pair[comparison.worst[token].pair].push_back(token);
  }
  std::vector<std::byte> scratch;
  for (const auto& [index, tokens] : tokens_of_pair) {
    const TokenPair& pair = comparison.pairs[index];
    const Status status =
        ReadIds(pair, tokens, FindBeside(files, pair.files.location), comparison, scratch);
    if (!status.ok() && comparison.ids_problem.empty()) {
      comparison.ids_problem = fmt::format("no ids of {} at {}: {}", base::Printable(key),
                                           LocationText(pair.files.location), status.message());
    }
  }
}

std::string WorstTokenText(const TokenComparison& comparison) {
  if (comparison.worst.empty()) {
    return {};
  }
  const WorstToken& worst = comparison.worst.front();
  const bool has_id = !comparison.ids.empty() && comparison.ids.front().has_value();
  return fmt::format("{}, sequence {}, position {}{}: {:.6g} and {:.6g}",
                     LocationText(comparison.pairs[worst.pair].files.location), worst.sequence,
                     worst.position,
                     has_id ? fmt::format(", token {}", *comparison.ids.front()) : "",
                     std::exp(worst.first), std::exp(worst.second));
}

std::string MeanText(const TokenPair* pair) {
  return pair == nullptr ? std::string()
                         : fmt::format("{:.6g} at {}", pair->numbers->difference.mean(),
                                       LocationText(pair->files.location));
}

Status CheckKey(const SavedData& run, const std::string& key, std::string_view side) {
  if (run.keys.count(key) != 0) {
    return {};
  }
  std::vector<std::string> known;
  for (const auto& [name, files] : run.keys) {
    known.push_back(base::Printable(name));
  }
  const std::optional<std::string> nearest = base::NearestMatch(key, known);
  return UsageError(fmt::format("the {} run holds no key {}", side, base::Printable(key)))
      .WithHint(nearest.has_value() ? fmt::format("did you mean {}?", *nearest)
                                    : "its keys: " + base::Join(known, ", "));
}

}  // namespace

Status CheckTokenKeys(const TokenOptions& options, const SavedData& first,
                      const SavedData& second) {
  std::set<std::string> names;
  for (const TokenKey& key : options.keys) {
    MSP_RETURN_IF_ERROR(CheckKey(first, key.first, "first"));
    MSP_RETURN_IF_ERROR(CheckKey(second, key.second, "second"));
    if (!names.insert(key.first).second) {
      return UsageError(
                 fmt::format(
                     "the tokens of {} are requested twice: the tables would have the same name",
                     base::Printable(key.first)))
          .WithHint("compare with one partner at a time, each with an --output_path of its own");
    }
    for (const std::string_view ending : {kTokensEnding, kTokenStepsEnding}) {
      const std::string table = key.first + std::string(ending);
      if (first.keys.count(table) + second.keys.count(table) > 0) {
        return UsageError(fmt::format("the table of tokens would have the name of the key {}",
                                      base::Printable(table)));
      }
    }
  }
  for (const std::string& key : {options.mask, options.ids}) {
    if (!key.empty()) {
      MSP_RETURN_IF_ERROR(CheckKey(first, key, "first"));
    }
  }
  return {};
}

TokenComparison CompareTokenKey(const TokenKey& key, const TokenOptions& options,
                                const SavedData& first, const SavedData& second,
                                base::ThreadPool& pool, bool quiet) {
  TokenComparison comparison;
  comparison.key = key;
  for (FilePair& files : PairFiles(first.keys.at(key.first), second.keys.at(key.second))) {
    comparison.pairs.emplace_back().files = std::move(files);
  }
  std::vector<Scratch> scratch(pool.thread_count());
  std::vector<WorstTokens> worst(pool.thread_count(), WorstTokens(options.worst));
  {
    base::Progress progress("comparing tokens", comparison.pairs.size(), "arrays", quiet);
    pool.ParallelFor(comparison.pairs.size(), [&](size_t index, size_t worker) {
      TokenPair& pair = comparison.pairs[index];
      const Status status =
          ComparePair(pair, index, options, first, scratch[worker], worst[worker]);
      if (!status.ok()) {
        pair.error = status.message();
      }
      progress.Add();
    });
  }
  for (const TokenPair& pair : comparison.pairs) {
    if (pair.numbers) {
      comparison.all.Add(*pair.numbers);
    }
  }
  for (size_t worker = 1; worker < worst.size(); ++worker) {
    worst[0].Add(worst[worker]);
  }
  comparison.worst = worst[0].Sorted();
  if (!options.ids.empty()) {
    ReadAllIds(options.ids, first.keys.at(options.ids), comparison);
  }
  return comparison;
}

TokenSummary Summarize(const TokenComparison& comparison) {
  TokenSummary summary;
  summary.key = comparison.key;
  summary.numbers = comparison.all;
  const TokenPair* largest = nullptr;
  const TokenPair* smallest = nullptr;
  const auto mean_of = [](const TokenPair* pair) { return pair->numbers->difference.mean(); };
  for (const TokenPair& pair : comparison.pairs) {
    summary.failed += pair.error.empty() ? 0 : 1;
    if (!pair.numbers) {
      summary.unpaired += pair.error.empty() ? 1 : 0;
      continue;
    }
    ++summary.compared;
    summary.other_shape += pair.first_shape != pair.second_shape ? 1 : 0;
    if (pair.numbers->tokens > 0) {
      largest = largest == nullptr || mean_of(&pair) > mean_of(largest) ? &pair : largest;
      smallest = smallest == nullptr || mean_of(&pair) < mean_of(smallest) ? &pair : smallest;
    }
  }
  summary.worst_token = WorstTokenText(comparison);
  if (largest != smallest) {
    summary.largest_mean = MeanText(largest);
    summary.smallest_mean = MeanText(smallest);
  }
  return summary;
}

std::vector<std::string> WarningsOf(const TokenComparison& comparison) {
  std::vector<std::string> warnings;
  const auto warn = [&](std::string_view text) {
    warnings.push_back(
        fmt::format("tokens of {}: {}", base::Printable(comparison.key.first), text));
  };
  for (const TokenPair& pair : comparison.pairs) {
    if (!pair.error.empty()) {
      warn(fmt::format("{}: {}", LocationText(pair.files.location), pair.error));
    }
  }
  const auto tell = [&](uint64_t OddValues::*count, std::string_view consequence) {
    const uint64_t first = comparison.all.first.*count;
    const uint64_t second = comparison.all.second.*count;
    if (first + second > 0) {
      warn(fmt::format("{} of the first run and {} of the second are {}", base::FormatCount(first),
                       base::FormatCount(second), consequence));
    }
  };
  tell(&OddValues::nan, "NaN: left out");
  tell(&OddValues::minus_infinity, "-inf: probability 0, left out of the mean of a - b");
  tell(&OddValues::too_large,
       "above 0, which no log-probability is: left out; was another key meant?");
  if (!comparison.ids_problem.empty()) {
    warn(comparison.ids_problem);
  }
  return warnings;
}

}  // namespace msprobe::analysis::rl
