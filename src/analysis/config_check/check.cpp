#include "src/analysis/config_check/check.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::analysis::config_check {
namespace {

constexpr uint64_t kMaxPackBytes = uint64_t{10} << 30U;
constexpr uint64_t kMaxMemberBytes = uint64_t{1} << 30U;
constexpr uint64_t kMaxTotalBytes = uint64_t{10} << 30U;
constexpr uint64_t kMaxListBytes = uint64_t{1} << 20U;  // of env, pip and versions
constexpr size_t kMaxMembers = size_t{1} << 30U;

bool IsFolderPart(Part part) { return part != Part::kEnv && part != Part::kPip; }

uint64_t LimitOf(std::string_view member) {
  return member.find('/') == std::string_view::npos ? kMaxListBytes : kMaxMemberBytes;
}

}  // namespace

std::string_view PartName(Part part) {
  switch (part) {
    case Part::kEnv:
      return "env";
    case Part::kPip:
      return "pip";
    case Part::kDataset:
      return "dataset";
    case Part::kWeights:
      return "weights";
    case Part::kHyperparameters:
      return "hyperparameters";
    case Part::kRandom:
      return "random";
  }
  return "";
}

bool IsPackMember(std::string_view name) {
  if (name == kEnvMember || name == kPipMember || name == kVersionsMember ||
      name == kScriptEnvMember) {
    return true;
  }
  const std::string_view folder = name.substr(0, name.find('/'));
  return folder.size() < name.size() && std::any_of(kParts.begin(), kParts.end(), [&](Part part) {
           return IsFolderPart(part) && PartName(part) == folder;
         });
}

Result<std::unique_ptr<Pack>> Pack::Open(const std::filesystem::path& path,
                                         std::string_view label) {
  const auto with_path = [&path, label](Status status) {
    return std::move(status).AddContext(
        fmt::format("cannot read the {} pack {}", label, path.string()));
  };
  std::unique_ptr<Pack> pack(new Pack());
  pack->path_ = path;
  pack->label_ = label;
  if (!base::Exists(path)) {
    return NotFoundError(fmt::format("{} does not exist", path.string()))
        .WithHint("msprobe config_check -d SCRIPT -o PACK.zip makes one");
  }
  Result<base::FileBytes> file = base::FileBytes::Open(path);
  if (!file.ok()) {
    return with_path(std::move(file).status());
  }
  pack->file_ = *std::move(file);
  if (pack->file_.bytes().size() > kMaxPackBytes) {
    return with_path(UnsupportedError("larger than 10 GiB"));
  }
  Result<io::ZipArchive> archive = io::ZipArchive::Open(pack->file_.bytes());
  if (!archive.ok()) {
    return with_path(std::move(archive).status())
        .WithHint("a pack is a zip that config_check -d or ConfigChecker wrote");
  }
  pack->archive_ = *std::move(archive);
  if (Status status = pack->TakeMembers(); !status.ok()) {
    return with_path(std::move(status));
  }
  return pack;
}

Status Pack::TakeMembers() {
  const std::vector<io::ZipEntry>& entries = archive_->entries();
  if (entries.size() > kMaxMembers) {
    return UnsupportedError(fmt::format("{} members", entries.size()));
  }
  for (const io::ZipEntry& entry : entries) {
    if (!entry.IsSafeToExtract()) {
      return BadFormatError(fmt::format("member \"{}\" would leave the output folder",
                                        base::Printable(entry.name)))
          .WithHint(
              "nothing was written; config_check never makes such a pack, so check where it comes "
              "from");
    }
    if (!IsPackMember(entry.name)) {
      ++foreign_member_count_;
      continue;
    }
    for (const Part part : kParts) {
      const std::string_view name = PartName(part);
      has_part_[static_cast<size_t>(part)] |= entry.name.substr(0, entry.name.find('/')) == name;
    }
    if (entry.name.back() != '/') {
      members_[entry.name] = &entry;
    }
  }
  uint64_t total_bytes = 0;
  for (const auto& [name, entry] : members_) {
    const uint64_t limit = LimitOf(name);
    if (entry->size_bytes > limit) {
      return UnsupportedError(
          fmt::format("member \"{}\" has {}, at most {} are read", base::Printable(name),
                      base::FormatBytes(entry->size_bytes), base::FormatBytes(limit)));
    }
    total_bytes += entry->size_bytes;
  }
  if (total_bytes > kMaxTotalBytes) {
    return UnsupportedError(fmt::format("its members have {} together, at most {} are read",
                                        base::FormatBytes(total_bytes),
                                        base::FormatBytes(kMaxTotalBytes)));
  }
  return {};
}

std::vector<std::string_view> Pack::MembersBelow(std::string_view folder) const {
  std::vector<std::string_view> names;
  for (auto at = members_.lower_bound(folder);
       at != members_.end() && at->first.starts_with(folder); ++at) {
    names.push_back(at->first);
  }
  return names;
}

uint64_t Pack::BytesOf(std::string_view member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? 0 : found->second->size_bytes;
}

Result<io::ZipBytes> Pack::Read(std::string_view member) const {
  const auto found = members_.find(member);
  if (found == members_.end()) {
    return NotFoundError(fmt::format("{}: no member \"{}\"", path_.string(), member));
  }
  Result<io::ZipBytes> bytes = archive_->Read(*found->second, LimitOf(member), true);
  if (!bytes.ok()) {
    return std::move(bytes).status().AddContext(path_.string());
  }
  return bytes;
}

Result<std::string> Pack::ReadText(std::string_view member) const {
  MSP_ASSIGN_OR_RETURN(const io::ZipBytes bytes, Read(member));
  return std::string(bytes.text());
}

Result<json::Json> Pack::ReadJson(std::string_view member) const {
  MSP_ASSIGN_OR_RETURN(const io::ZipBytes bytes, Read(member));
  Result<json::Json> tree = json::ParseDocument(bytes.text());
  if (!tree.ok()) {
    return std::move(tree)
        .status()
        .AddContext(
            fmt::format("{}: member \"{}\" is not JSON", path_.string(), base::Printable(member)))
        .WithHint("collect this side again");
  }
  return tree;
}

Result<json::Json> Pack::ReadJsonObject(std::string_view member) const {
  MSP_ASSIGN_OR_RETURN(json::Json tree, ReadJson(member));
  if (!tree.is_object()) {
    return BadFormatError(fmt::format("{}: member \"{}\" holds no object {{...}}", path_.string(),
                                      base::Printable(member)));
  }
  return tree;
}

Status Pack::Extract(const std::filesystem::path& folder) const {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  std::filesystem::path parent = folder;
  for (const auto& [name, entry] : members_) {
    const std::filesystem::path target = folder / std::string(name);
    if (target.parent_path() != parent) {
      parent = target.parent_path();
      MSP_RETURN_IF_ERROR(base::CreateFolders(parent));
    }
    MSP_ASSIGN_OR_RETURN(const io::ZipBytes bytes, Read(name));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(target, bytes.text()));
  }
  return {};
}

bool LooksLikePack(const std::filesystem::path& path) {
  if (!base::IsRegularFile(path)) {
    return false;
  }
  const Result<base::FileBytes> file = base::FileBytes::Open(path);
  if (!file.ok()) {
    return false;
  }
  const Result<io::ZipArchive> archive = io::ZipArchive::Open(file->bytes());
  return archive.ok() &&
         std::any_of(archive->entries().begin(), archive->entries().end(),
                     [](const io::ZipEntry& entry) { return IsPackMember(entry.name); });
}

std::optional<int64_t> NumberBehind(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(prefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  return base::ParseInt(digits);
}

StepFiles FindStepFiles(const Pack& pack, Part part, std::string_view file_name) {
  StepFiles found;
  for (const std::string_view member : pack.MembersBelow(std::string(PartName(part)) + "/")) {
    const std::vector<std::string_view> pieces = base::Split(member, '/');
    const bool wanted = file_name.empty() ? member.ends_with(".json") : pieces.back() == file_name;
    if (!wanted) {
      continue;
    }
    constexpr size_t kPieces = 4;  // part, step, rank, file
    std::optional<int64_t> step;
    std::optional<int64_t> rank;
    if (pieces.size() == kPieces) {
      step = NumberBehind(pieces[1], "step");
      rank = NumberBehind(pieces[2], "rank");
    }
    if (step && rank) {
      found.files.push_back({*step, *rank, member});
    } else {
      found.unplaced.emplace_back(member);
    }
  }
  std::sort(found.files.begin(), found.files.end(), [](const StepFile& a, const StepFile& b) {
    return std::tie(a.step, a.rank, a.member) < std::tie(b.step, b.rank, b.member);
  });
  return found;
}

std::string OnlyIn(const std::vector<StepFile>& files, const std::vector<StepFile>& others) {
  std::set<std::pair<int64_t, int64_t>> known;
  for (const StepFile& file : others) {
    known.emplace(file.step, file.rank);
  }
  std::set<std::pair<int64_t, int64_t>> missing;
  for (const StepFile& file : files) {
    if (known.count({file.step, file.rank}) == 0) {
      missing.emplace(file.step, file.rank);
    }
  }
  constexpr size_t kShown = 3;
  std::string text;
  size_t shown = 0;
  for (const auto& [step, rank] : missing) {
    if (shown == kShown) {
      text += fmt::format(" and {} more", missing.size() - kShown);
      break;
    }
    text += fmt::format("{}step {} rank {}", shown == 0 ? "" : ", ", step, rank);
    ++shown;
  }
  return text;
}

bool HasErrors(const CompareRun& run) {
  return std::any_of(run.checks.begin(), run.checks.end(),
                     [](const CheckResult& check) { return !check.passed; });
}

bool ComparedNothing(const CompareRun& run) {
  if (run.gate_needs_missing) {
    return true;
  }
  const auto compared = [](const CheckResult& check) { return check.compared; };
  return std::none_of(run.checks.begin(), run.checks.end(), compared) ||
         std::any_of(run.checks.begin(), run.checks.end(), [](const CheckResult& check) {
           const bool recorded = check.part == Part::kDataset || check.part == Part::kWeights;
           return recorded && !check.compared;
         });
}

bool HasWarnings(const CompareRun& run) {
  return !run.gaps.empty() || !run.missing.empty() ||
         std::any_of(run.checks.begin(), run.checks.end(),
                     [](const CheckResult& check) { return check.warnings > 0; }) ||
         std::any_of(run.findings.begin(), run.findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kWarning; });
}

Verdict VerdictOf(const CompareRun& run) {
  const auto compared = [](const CheckResult& check) { return check.compared; };
  if (std::none_of(run.checks.begin(), run.checks.end(), compared)) {
    return Verdict::kNothingCompared;
  }
  const bool only_nan =
      std::all_of(run.checks.begin(), run.checks.end(),
                  [](const CheckResult& check) { return check.errors == check.nan_errors; });
  return HasErrors(run)         ? (only_nan ? Verdict::kSameButNan : Verdict::kDifferent)
         : !run.missing.empty() ? Verdict::kSameInPart
         : HasWarnings(run)     ? Verdict::kWarnings
                                : Verdict::kSame;
}

size_t LogSettingsRun::different() const {
  return static_cast<size_t>(std::count_if(settings.begin(), settings.end(),
                                           [](const LogSetting& s) { return !s.equal; }));
}

size_t LogSettingsRun::common() const {
  return static_cast<size_t>(
      std::count_if(settings.begin(), settings.end(),
                    [](const LogSetting& s) { return s.present[0] && s.present[1]; }));
}

namespace {

constexpr size_t kLongText = 200;  // from here on frequent characters start no match

// A piece of a and the equal piece of b.
struct Match {
  size_t a = 0;
  size_t b = 0;
  size_t length = 0;
};

struct Region {
  size_t a_begin;
  size_t a_end;
  size_t b_begin;
  size_t b_end;
};

class Matcher {
 public:
  Matcher(std::u32string_view a, std::u32string_view b)
      : a_(a), b_(b), run_(b.size()), next_run_(b.size()) {
    for (size_t i = 0; i < b.size(); ++i) {
      places_[b[i]].push_back(i);
    }
    if (b.size() >= kLongText) {
      const size_t limit = b.size() / 100 + 1;
      std::erase_if(places_, [limit](const auto& entry) { return entry.second.size() > limit; });
    }
  }

  uint64_t steps() const { return steps_; }

  size_t MatchedCharacters() {
    size_t matched = 0;
    std::vector<Region> open = {{0, a_.size(), 0, b_.size()}};
    while (!open.empty()) {
      const Region region = open.back();
      open.pop_back();
      const Match match = Longest(region);
      if (match.length == 0) {
        continue;
      }
      matched += match.length;
      if (region.a_begin < match.a && region.b_begin < match.b) {
        open.push_back({region.a_begin, match.a, region.b_begin, match.b});
      }
      if (match.a + match.length < region.a_end && match.b + match.length < region.b_end) {
        open.push_back(
            {match.a + match.length, region.a_end, match.b + match.length, region.b_end});
      }
    }
    return matched;
  }

 private:
  Match Longest(const Region& region) {
    Match best = {region.a_begin, region.b_begin, 0};
    // run_[j]: how many characters up to b[j] equal those up to the previous character of a.
    steps_ += region.a_end - region.a_begin;
    for (size_t i = region.a_begin; i < region.a_end; ++i) {
      const auto places = places_.find(a_[i]);
      if (places != places_.end()) {
        for (const size_t j : places->second) {
          ++steps_;
          if (j < region.b_begin) {
            continue;
          }
          if (j >= region.b_end) {
            break;
          }
          const size_t length = (j > region.b_begin ? run_[j - 1] : 0) + 1;
          next_run_[j] = length;
          next_touched_.push_back(j);
          if (length > best.length) {
            best = {i + 1 - length, j + 1 - length, length};
          }
        }
      }
      for (const size_t j : touched_) {
        run_[j] = 0;
      }
      touched_.clear();
      run_.swap(next_run_);
      touched_.swap(next_touched_);
    }
    for (const size_t j : touched_) {
      run_[j] = 0;
    }
    touched_.clear();
    // Frequent characters start no match, but continue one.
    while (best.a > region.a_begin && best.b > region.b_begin && a_[best.a - 1] == b_[best.b - 1]) {
      --best.a;
      --best.b;
      ++best.length;
    }
    while (best.a + best.length < region.a_end && best.b + best.length < region.b_end &&
           a_[best.a + best.length] == b_[best.b + best.length]) {
      ++best.length;
    }
    return best;
  }

  const std::u32string_view a_;
  const std::u32string_view b_;
  std::unordered_map<char32_t, std::vector<size_t>> places_;  // in b
  std::vector<size_t> run_;
  std::vector<size_t> next_run_;
  std::vector<size_t> touched_;  // where run_ is not zero
  std::vector<size_t> next_touched_;
  uint64_t steps_ = 0;
};

double Ratio(size_t matched, size_t total) {
  return total == 0 ? 1.0 : 2.0 * static_cast<double>(matched) / static_cast<double>(total);
}

}  // namespace

SimilarityText::SimilarityText(std::string_view utf8, bool fold_case) {
  for (size_t at = 0; at < utf8.size() && characters.size() < kMaxCharacters;) {
    const base::Utf8Char character = base::DecodeUtf8(utf8.substr(at));
    at += character.bytes;
    char32_t code = character.code;
    if (fold_case && code >= U'A' && code <= U'Z') {
      code += U'a' - U'A';
    }
    characters.push_back(code);
    ++histogram[code % histogram.size()];
  }
}

double Similarity(const SimilarityText& a, const SimilarityText& b) {
  uint64_t steps = 0;
  return Similarity(a, b, steps);
}

double Similarity(const SimilarityText& a, const SimilarityText& b, uint64_t& steps) {
  Matcher matcher(a.characters, b.characters);
  const size_t matched = matcher.MatchedCharacters();
  // Making the matcher ready is work, too.
  steps += matcher.steps() + a.characters.size() + b.characters.size();
  return Ratio(matched, a.characters.size() + b.characters.size());
}

double SimilarityBound(const SimilarityText& a, const SimilarityText& b) {
  size_t common = 0;
  for (size_t i = 0; i < a.histogram.size(); ++i) {
    common += std::min(a.histogram[i], b.histogram[i]);
  }
  return Ratio(common, a.characters.size() + b.characters.size());
}

std::string_view PartName(const Finding& finding) {
  return finding.part ? PartName(*finding.part) : "packs";
}

void AddExample(Finding& finding, std::string text) {
  const std::vector<std::string>& examples = finding.examples;
  if (examples.size() < kMaxExamples &&
      std::find(examples.begin(), examples.end(), text) == examples.end()) {
    finding.examples.push_back(std::move(text));
  }
}

std::string Shown(std::string_view value) {
  constexpr size_t kMaxBytes = 60;
  if (value.empty()) {
    return "(empty)";
  }
  size_t end = 0;
  while (end < value.size() && end < kMaxBytes) {
    end += base::DecodeUtf8(value.substr(end)).bytes;
  }
  return base::Printable(value.substr(0, end)) + (end < value.size() ? "…" : "");
}

}  // namespace msprobe::analysis::config_check
