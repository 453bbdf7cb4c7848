#include "src/analysis/ckpt/ckpt.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/ckpt/causes.h"
#include "src/analysis/ckpt/compare_pairs.h"
#include "src/analysis/ckpt/digests.h"
#include "src/analysis/ckpt/mapping.h"
#include "src/analysis/ckpt/result.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"
#include "src/report/writers.h"

namespace msprobe::analysis::ckpt {
namespace {

using json::Writer;

void PutMetric(Writer& writer, std::string_view key, const PairResult& pair,
               const std::optional<double>& value) {
  writer.Key(key);
  if (pair.outcome == Outcome::kUnreadable) {
    writer.Text("error");
  } else if (pair.outcome == Outcome::kShapes || !value) {
    writer.Null();
  } else {
    writer.Float(*value);
  }
}

void PutShape(Writer& writer, const Shape& shape) {
  writer.BeginArray();
  for (const int64_t size : shape) {
    writer.Int(size);
  }
  writer.EndArray();
}

}  // namespace

std::string SimilarityJson(std::span<const PairResult> pairs, bool strict) {
  std::string text;
  Writer writer(text, 4, strict ? Writer::NonFinite::kNull : Writer::NonFinite::kPython);
  writer.BeginObject();
  for (const PairResult& pair : pairs) {
    writer.Key(pair.name);
    writer.BeginObject();
    PutMetric(writer, "l2", pair, pair.metrics.l2);
    PutMetric(writer, "cos", pair, pair.metrics.cosine);
    const int64_t count_a = ElementCount(pair.shape_a);
    const int64_t count_b = ElementCount(pair.shape_b);
    writer.Key("numel");
    if (count_a == count_b) {
      writer.Int(count_a);
    } else {
      PutShape(writer, {count_a, count_b});
    }
    writer.Key("shape");
    if (pair.shape_a == pair.shape_b) {
      PutShape(writer, pair.shape_a);
    } else {
      writer.BeginArray();
      PutShape(writer, pair.shape_a);
      PutShape(writer, pair.shape_b);
      writer.EndArray();
    }
    if (!pair.metrics.cosine && pair.outcome == Outcome::kDifferent && !pair.rows.empty()) {
      writer.Member("rows", pair.rows);
    }
    writer.EndObject();
  }
  writer.EndObject();
  return text;
}

namespace {

namespace fs = std::filesystem;
using checkpoint::Checkpoint;
using Clock = std::chrono::steady_clock;

// Bytes of each side that are read to find out whether a mapping by content is worth a hint.
constexpr uint64_t kMostBytesForHint = uint64_t{1} << 30U;

fs::path DetailsPath(const Options& options, std::string_view extension) {
  return options.output.parent_path() /
         fmt::format("{}_details.{}", options.output.stem().string(), extension);
}

std::vector<fs::path> ResultFiles(const Options& options) {
  std::vector<fs::path> files = {options.output};
  if (options.write_json) {
    files.push_back(DetailsPath(options, "json"));
  }
  if (options.write_xlsx) {
    files.push_back(DetailsPath(options, "xlsx"));
  }
  if (options.write_csv) {
    files.push_back(DetailsPath(options, "csv"));
  }
  if (options.write_html) {
    files.push_back(DetailsPath(options, "html"));
  }
  for (const fs::path& file : {options.unmatched_file, options.draft_file}) {
    if (!file.empty()) {
      files.push_back(file);
    }
  }
  return files;
}

// Before hours of reading: can this file be written?
Status CheckWritable(const fs::path& file) {
  if (base::IsFolder(file)) {
    return UsageError(fmt::format("{} is a directory; the result is a file", file.string()))
        .WithHint(fmt::format("-o {}", (file / "ckpt_similarity.json").string()));
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFile(file));
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!base::IsFolder(folder)) {
    return UsageError(fmt::format("the folder {} of the result does not exist", folder.string()))
        .WithHint(fmt::format("mkdir -p {}", folder.string()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return IoError(fmt::format("the folder {} cannot be written to", folder.string()));
  }
  return {};
}

Status CheckPaths(const Options& options) {
  for (const fs::path* path : {&options.path_a, &options.path_b}) {
    if (!base::Exists(*path) && !checkpoint::IsWithAdapter(*path)) {
      return NotFoundError(fmt::format("{} does not exist", path->string()));
    }
  }
  std::vector<fs::path> further = options.also;
  if (!options.activations.empty()) {
    further.push_back(options.activations);
  }
  for (const fs::path& path : further) {
    if (!base::Exists(path)) {
      return NotFoundError(fmt::format("{} does not exist", path.string()));
    }
  }
  const std::vector<fs::path> files = ResultFiles(options);
  for (size_t i = 0; i < files.size(); ++i) {
    MSP_RETURN_IF_ERROR(CheckWritable(files[i]));
    for (const fs::path* path : {&options.path_a, &options.path_b}) {
      std::error_code error;
      if (fs::equivalent(files[i], *path, error)) {
        return UsageError(fmt::format("{} is an input; it cannot be the result", path->string()));
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (files[i].lexically_normal() == files[j].lexically_normal()) {
        return UsageError(fmt::format("{} would be written twice", files[i].string()));
      }
    }
  }
  return {};
}

// Both at once: opening parses many small headers and waits for the disk.
Result<std::array<Checkpoint, 2>> OpenBoth(const Options& options, base::ThreadPool& pool) {
  const std::array<const fs::path*, 2> paths = {&options.path_a, &options.path_b};
  std::array<std::optional<Result<Checkpoint>>, 2> opened;
  pool.ParallelFor(2, [&](size_t item, size_t /*worker*/) {
    opened[item] = checkpoint::OpenCheckpoint(*paths[item], options.open);
  });
  std::array<Checkpoint, 2> both;
  for (size_t side = 0; side < 2; ++side) {
    MSP_ASSIGN_OR_RETURN(both[side], *std::move(opened[side]));
  }
  return both;
}

// The Python tool knows equal names only.
Result<MatchedParameters> Match(const Checkpoint& a, const Checkpoint& b, const Options& options) {
  if (options.open.compatible_merge && options.mapping_file.empty()) {
    return MatchByName(a, b);
  }
  MappingOptions mapping;
  mapping.rules = options.mapping_file;
  mapping.vocabulary = options.vocabulary;
  mapping.attention_heads = options.attention_heads;
  mapping.query_groups = options.query_groups;
  return MatchParameters(a, b, mapping);
}

SideFacts FactsOf(const Checkpoint& checkpoint) {
  return {checkpoint.kind, checkpoint.path, checkpoint.iteration, checkpoint.parameters.size()};
}

// Settings that both sides have; what only one has is often a matter of PyTorch's version.
std::vector<SettingDifference> CompareSettings(const Checkpoint& a, const Checkpoint& b) {
  std::unordered_map<std::string_view, std::string_view> texts;
  for (const checkpoint::Setting& setting : b.settings) {
    texts.emplace(setting.name, setting.text);
  }
  std::vector<SettingDifference> differences;
  for (const checkpoint::Setting& setting : a.settings) {
    const auto other = texts.find(setting.name);
    if (other != texts.end() && other->second != setting.text) {
      differences.push_back({setting.name, setting.text, std::string(other->second)});
    }
  }
  return differences;
}

uint64_t ElementsToCompare(const MatchedParameters& matched) {
  uint64_t elements = 0;
  for (const MatchedPair& pair : matched.pairs) {
    if (pair.a.status.ok() && pair.b.status.ok() && pair.a.shape == pair.b.shape) {
      elements += static_cast<uint64_t>(pair.a.element_count());
    }
  }
  return elements;
}

// What is said about names; all that is written where no parameter has a partner, so that no result
// without content is in the way of the next try.
Status WriteNames(const Options& options, Comparison& comparison) {
  if (!options.unmatched_file.empty()) {
    MSP_RETURN_IF_ERROR(
        base::WriteFileAtomically(options.unmatched_file, UnmatchedJson(comparison)));
    comparison.files.push_back(options.unmatched_file);
  }
  if (!options.draft_file.empty() && !comparison.same_content.empty()) {
    MSP_RETURN_IF_ERROR(
        base::WriteFileAtomically(options.draft_file, MappingDraft(comparison.same_content)));
    comparison.files.push_back(options.draft_file);
    comparison.wrote_mapping = true;
  }
  return {};
}

Status WriteResults(const Options& options, Comparison& comparison, base::ThreadPool& pool) {
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
      options.output, SimilarityJson(comparison.pairs, options.strict_json)));
  if (options.write_json) {
    MSP_RETURN_IF_ERROR(
        base::WriteFileAtomically(DetailsPath(options, "json"), DetailsJson(comparison)));
  }
  if (options.write_xlsx || options.write_csv) {
    const report::Table table = DetailsTable(comparison);
    if (options.write_xlsx) {
      const report::Table sensitivity = SensitivityTable(comparison);
      std::vector<const report::Table*> sheets = {&table};
      if (comparison.with_sensitivity) {
        sheets.push_back(&sensitivity);
      }
      MSP_RETURN_IF_ERROR(report::WriteXlsx(DetailsPath(options, "xlsx"), sheets, {}, pool));
    }
    if (options.write_csv) {
      MSP_RETURN_IF_ERROR(report::WriteCsv(DetailsPath(options, "csv"), table));
    }
  }
  if (options.write_html) {
    comparison.page = DetailsPath(options, "html");
  }
  std::vector<fs::path> files = ResultFiles(options);
  std::erase_if(files, [&](const fs::path& file) {
    return file == options.unmatched_file || file == options.draft_file;
  });
  comparison.files.insert(comparison.files.begin(), files.begin(), files.end());
  return {};
}

// Other steps that a side may have been mistaken for: what the user named, and what lies beside.
std::deque<OtherCheckpoint> OpenOthers(const std::array<Checkpoint, 2>& both,
                                       const Options& options) {
  std::vector<fs::path> paths = options.also;
  for (const Checkpoint& side : both) {
    for (fs::path& sibling : SiblingsOf(side.path)) {
      paths.push_back(std::move(sibling));
    }
  }
  std::deque<OtherCheckpoint> others;
  std::vector<fs::path> seen;
  for (const fs::path& path : paths) {
    std::error_code error;
    const bool is_known = std::any_of(both.begin(), both.end(),
                                      [&](const Checkpoint& side) {
                                        return fs::equivalent(path, side.path, error);
                                      }) ||
                          std::find(seen.begin(), seen.end(), path) != seen.end();
    if (is_known) {
      continue;
    }
    seen.push_back(path);
    Result<Checkpoint> opened = checkpoint::OpenCheckpoint(path, options.open);
    if (!opened.ok()) {
      continue;  // a neighbour that is not a checkpoint
    }
    Result<MatchedParameters> matched = Match(both[0], *opened, options);
    if (matched.ok()) {
      others.push_back({*std::move(opened), *std::move(matched)});
    }
  }
  return others;
}

void FindCauses(const MatchedParameters& matched, const std::array<Checkpoint, 2>& both,
                const Options& options, base::ThreadPool& pool, Comparison& comparison) {
  CauseSearch search(matched, both, pool);
  search.Run(comparison.pairs);
  if (search.HasUnexplained(comparison.pairs)) {
    const std::deque<OtherCheckpoint> others = OpenOthers(both, options);
    search.RunStale(others, comparison.pairs);
  }
  search.RunLast(comparison.pairs);
}

// A parameter that one side lacks while it has others of the same layer: a part was lost.
void MarkMissingParts(Comparison& comparison) {
  std::unordered_set<std::string_view> layers;
  for (const PairResult& pair : comparison.pairs) {
    layers.insert(LayerOf(pair.name_a));
    layers.insert(LayerOf(pair.name_b));
  }
  for (std::vector<Unmatched>* const names : {&comparison.only_in_a, &comparison.only_in_b}) {
    for (Unmatched& name : *names) {
      if (layers.contains(LayerOf(name.name))) {
        name.cause = "part_missing";
      }
    }
  }
}

// A pair as another process found it, and the bytes that it read for it.
struct SharedPair {
  PairResult result;
  uint64_t bytes = 0;
};
template <typename Archive>
void PackMembers(Archive& archive, SharedPair& pair) {
  archive(pair.result, pair.bytes);
}

// All pairs; under a launcher each process takes its share of the parameters, and only the first
// one has the results of all.
Status ComparePairsShared(const MatchedParameters& matched, const std::array<Checkpoint, 2>& both,
                          const Options& options, PairSettings& settings, base::ThreadPool& pool,
                          Comparison& comparison) {
  MSP_ASSIGN_OR_RETURN(
      base::SharedRun shared,
      base::SharedRun::Join(options.output.parent_path(), "ckpt_compare", base::TimestampNow()));
  comparison.reports = shared.answers();
  std::atomic<uint64_t> bytes_done{0};
  const auto compare = [&](std::span<const MatchedPair> pairs, uint64_t elements) {
    base::Progress progress("comparing", elements, "elements", options.quiet);
    settings.on_progress = [&](uint64_t count, uint64_t bytes) {
      bytes_done += bytes;
      progress.Add(count, bytes);
    };
    return ComparePairs(pairs, both[0].files, both[1].files, settings, pool);
  };
  if (!shared.is_shared()) {
    comparison.pairs = compare(matched.pairs, ElementsToCompare(matched));
    comparison.bytes = bytes_done;
    return {};
  }
  std::vector<base::WorkUnit> units;
  for (const MatchedPair& pair : matched.pairs) {
    units.push_back({1 + static_cast<uint64_t>(pair.a.element_count()), 0});
  }
  if (!units.empty()) {
    const base::WorkUnit inputs = base::UnitOfFiles({options.path_a, options.path_b});
    units.front().mark = inputs.mark + both[0].file_bytes() + 31 * both[1].file_bytes();
  }
  std::vector<std::optional<SharedPair>> found;
  MSP_RETURN_IF_ERROR(shared.ShareOut(
      units,
      [&](std::span<const size_t> places, const auto& give) {
        // In the order of the files.
        std::vector<size_t> mine(places.begin(), places.end());
        std::sort(mine.begin(), mine.end());
        std::vector<MatchedPair> pairs;
        uint64_t elements = 0;
        for (const size_t place : mine) {
          pairs.push_back(matched.pairs[place]);
          elements += static_cast<uint64_t>(pairs.back().a.element_count());
        }
        std::vector<PairResult> results = compare(pairs, elements);
        for (size_t i = 0; i < mine.size(); ++i) {
          give(mine[i], {std::move(results[i]), i == 0 ? bytes_done.load() : 0});
        }
        return Status();
      },
      found));
  if (!shared.answers()) {
    return {};
  }
  for (size_t place = 0; place < found.size(); ++place) {
    PairResult& result = comparison.pairs.emplace_back(Describe(matched.pairs[place]));
    if (found[place]) {
      comparison.bytes += found[place]->bytes;
      result.outcome = found[place]->result.outcome;
      result.sums = found[place]->result.sums;
      result.metrics = found[place]->result.metrics;
      result.notes = std::move(found[place]->result.notes);
      continue;
    }
    comparison.is_incomplete = true;
    result.outcome = Outcome::kUnreadable;
    result.notes.push_back(shared.WhyMissing(place));
  }
  for (std::string& sentence :
       shared.Missing("parameters", [&](size_t place) { return matched.pairs[place].name; })) {
    comparison.warnings.push_back(std::move(sentence));
  }
  return {};
}

// With its files on the disk.
Result<Comparison> Written(const Options& options, Comparison comparison, base::ThreadPool& pool,
                           Clock::time_point start) {
  MSP_RETURN_IF_ERROR(WriteNames(options, comparison));
  if (!comparison.pairs.empty() || options.open.compatible_merge) {
    MSP_RETURN_IF_ERROR(WriteResults(options, comparison, pool));
  }
  comparison.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return comparison;
}

}  // namespace

Result<Comparison> Run(const Options& options) {
  const Clock::time_point start = Clock::now();
  MSP_RETURN_IF_ERROR(CheckPaths(options));
  if (options.write_html) {
    MSP_RETURN_IF_ERROR(report::CheckAnswerPage());
  }
  base::ThreadPool pool(options.threads);
  if (IsOfDigests(options)) {
    MSP_ASSIGN_OR_RETURN(Comparison comparison, CompareDigests(options, pool));
    return Written(options, std::move(comparison), pool, start);
  }
  MSP_ASSIGN_OR_RETURN(auto both, OpenBoth(options, pool));
  MSP_ASSIGN_OR_RETURN(MatchedParameters matched, Match(both[0], both[1], options));
  Comparison comparison;
  comparison.a = FactsOf(both[0]);
  comparison.b = FactsOf(both[1]);
  for (size_t side = 0; side < 2; ++side) {
    for (const std::string& warning : both[side].warnings) {
      comparison.warnings.push_back(
          fmt::format("{}: {}", side == 0 ? "test" : "reference", warning));
    }
  }
  comparison.settings = CompareSettings(both[0], both[1]);
  comparison.warnings.insert(comparison.warnings.end(), matched.warnings.begin(),
                             matched.warnings.end());
  PairSettings settings;
  settings.tolerance = options.tolerance;
  settings.float32 = options.float32_figures;
  settings.means = comparison.with_means =
      options.write_json || options.write_xlsx || options.write_csv || options.write_html;
  MSP_RETURN_IF_ERROR(ComparePairsShared(matched, both, options, settings, pool, comparison));
  if (!comparison.reports) {
    return comparison;
  }
  // The Python tool knows equal names only.
  if (!options.open.compatible_merge) {
    comparison.same_content =
        FindSameContent(both[0], both[1], matched, comparison.pairs,
                        options.draft_file.empty() ? kMostBytesForHint : UINT64_MAX, pool);
  }
  if (!options.open.compatible_merge) {
    FindCauses(matched, both, options, pool, comparison);
  }
  if (options.sensitivity || !options.activations.empty()) {
    MSP_RETURN_IF_ERROR(RankSensitivity(matched.pairs, options.activations, pool, comparison));
  }
  comparison.only_in_a = std::move(matched.only_in_a);
  comparison.only_in_b = std::move(matched.only_in_b);
  MarkMissingParts(comparison);
  comparison.left_out_a = std::move(matched.left_out_a);
  comparison.left_out_b = std::move(matched.left_out_b);
  return Written(options, std::move(comparison), pool, start);
}

}  // namespace msprobe::analysis::ckpt
