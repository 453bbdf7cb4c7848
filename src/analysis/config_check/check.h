// One check of two packs: the rows of its sheet, and what they mean.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/io/zip.h"
#include "src/json/document.h"
#include "src/report/table.h"

namespace msprobe::analysis::config_check {

// What is asked of config_check: to compare two packs, to collect one, or to look at the settings
// that trainings printed into their logs.

// Options of the checks of two packs.
struct CheckOptions {
  std::string framework;              // "pytorch", "mindspore" or empty
  bool normalize_env = false;         // values that mean the same are not a difference
  bool normalize_pip = false;         // package names in any spelling, whole versions
  bool ignore_collector_env = false;  // leave out what the Python tool sets while collecting
  bool compat = false;                // only the rows of the Python tool
};

// A pack, collected on this machine.
struct CollectOptions {
  std::vector<std::filesystem::path> inputs;  // launch scripts (.sh), configs (.yaml, .yml, .json)
  std::filesystem::path dynamic;  // parameters of a running program: one JSON object; empty: none
  std::filesystem::path output = "./config_check_pack.zip";
  std::string python;   // interpreter: a path or a name looked up in PATH; empty: the one in use
  bool compat = false;  // hyperparameters with every quirk of the Python tool
  bool inputs_only = false;  // neither this process's environment nor packages
};

// Two packs, compared. A launch script or config in the place of one is collected first.
struct CompareOptions {
  std::filesystem::path bench_pack;
  std::filesystem::path cmp_pack;
  std::string python;  // of a pack that is collected, as above
  std::filesystem::path output_folder = "./config_check_result";
  bool write_xlsx = true;
  bool write_json = false;
  CheckOptions check;
};

// Settings in logs: those of two runs compared, or those of one held against what is required of
// it.
struct LogSettingsOptions {
  bool verify = false;  // against requirements
  bool slime = false;   // two logs of slime: its list of arguments, by the Python tool's rules
  // Log of the NPU side; with `verify` YAML of requirements, empty for the built-in ones.
  std::filesystem::path first;
  std::filesystem::path second;  // log of the bench side; with `verify` the log
  std::filesystem::path output_folder;
};

// One pack of `config_check`: a zip of JSON and text members. Everything is looked at inside of the
// archive; nothing is written before Extract.

// What is checked, in the order of sheets and summary rows.
enum class Part : uint8_t { kEnv, kPip, kDataset, kWeights, kHyperparameters, kRandom };
inline constexpr std::array<Part, 6> kParts = {
    Part::kEnv, Part::kPip, Part::kDataset, Part::kWeights, Part::kHyperparameters, Part::kRandom};
std::string_view PartName(Part part);  // "env", "pip", ...

inline constexpr std::string_view kEnvMember = "env";
inline constexpr std::string_view kPipMember = "pip";
inline constexpr std::string_view kVersionsMember = "versions";
// The origin of each variable in env that a launch script sets. The Python tool has no such member.
inline constexpr std::string_view kScriptEnvMember = "script_env";

// True for names that members of a pack have: "env", "dataset/step0/rank0/dataset.json", ...
bool IsPackMember(std::string_view name);

class Pack {
 public:
  // Refuses what is not a zip, what is too large, and archives with a member that would leave the
  // folder it is extracted to. `label` is "reference" or "test".
  static Result<std::unique_ptr<Pack>> Open(const std::filesystem::path& path,
                                            std::string_view label);

  const std::filesystem::path& path() const { return path_; }
  const std::string& label() const { return label_; }
  bool Has(Part part) const { return has_part_[static_cast<size_t>(part)]; }
  bool HasMember(std::string_view name) const { return members_.count(name) > 0; }
  // Names of the members below a folder ("dataset/"), by bytes.
  std::vector<std::string_view> MembersBelow(std::string_view folder) const;
  uint64_t BytesOf(std::string_view member) const;  // unpacked; 0: no such member
  // Members that no pack has; they are neither read nor extracted.
  size_t foreign_member_count() const { return foreign_member_count_; }

  // Errors name the pack and the member.
  Result<std::string> ReadText(std::string_view member) const;
  Result<json::Json> ReadJson(std::string_view member) const;
  // The same, and the value must be an object.
  Result<json::Json> ReadJsonObject(std::string_view member) const;

  // Writes every member below `folder`, one after another.
  Status Extract(const std::filesystem::path& folder) const;

 private:
  Pack() = default;
  Status TakeMembers();
  Result<io::ZipBytes> Read(std::string_view member) const;

  std::filesystem::path path_;
  std::string label_;
  base::FileBytes file_;
  std::optional<io::ZipArchive> archive_;
  std::map<std::string_view, const io::ZipEntry*> members_;  // the last one of each name
  std::array<bool, kParts.size()> has_part_{};
  size_t foreign_member_count_ = 0;
};

// True when the file is a zip with at least one member of a pack.
bool LooksLikePack(const std::filesystem::path& path);

// Members that stand under step<S>/rank<R>/.

struct StepFile {
  int64_t step = 0;
  int64_t rank = 0;
  std::string_view member;  // the whole name; lives as long as the pack
};

// The number in "step12" or "rank0"; nullopt for any other name.
std::optional<int64_t> NumberBehind(std::string_view name, std::string_view prefix);

struct StepFiles {
  std::vector<StepFile> files;        // by step, rank, name
  std::vector<std::string> unplaced;  // JSON members whose folders have other names
};

// The JSON members of a part: all of them, or those called `file_name`.
StepFiles FindStepFiles(const Pack& pack, Part part, std::string_view file_name);

// "step 3 rank 0": steps and ranks of `files` that `others` lacks, "" for none. Long lists are
// shortened.
std::string OnlyIn(const std::vector<StepFile>& files, const std::vector<StepFile>& others);

// The result of config_check: of two packs, of what was collected, of settings in logs.

enum class Severity : uint8_t {
  kError,    // the runs are not the same experiment
  kWarning,  // they may not be
  kNote,     // good to know
};

// One thing to tell, with its remedy. The order in a list is the order of importance.
struct Finding {
  Severity severity = Severity::kError;
  std::optional<Part> part;           // none: the packs as a whole
  std::string what;                   // one sentence
  std::vector<std::string> examples;  // "lr: 0.1 / 0.2"
  std::string why;                    // empty: nothing to add
  std::string fix;
  bool consequence = false;  // of something else: listed after the other errors
};

// The result of one check of two packs.
struct CheckResult {
  Part part = Part::kEnv;
  report::Table table;    // named as its sheet
  bool passed = true;     // the sheet's verdict: no row is an error
  bool compared = true;   // something of one side was held against something of the other
  size_t errors = 0;      // rows
  size_t nan_errors = 0;  // of these, rows that agree but for NaN on both sides
  size_t warnings = 0;    // rows that do not fail the check
  std::vector<Finding> findings;
};

enum class Verdict : uint8_t {
  kSame,             // every check passed and there is nothing to warn of
  kSameInPart,       // every check passed, but some that there should be had nothing to compare
  kSameButNan,       // only NaN on both sides fails a check
  kWarnings,         // every check passed
  kDifferent,        // a check failed
  kNothingCompared,  // the packs have no part in common, or nothing within their parts
};

struct CompareRun {
  std::filesystem::path output_folder;  // absolute
  std::vector<std::filesystem::path> files;
  std::vector<CheckResult> checks;  // in sheet order; their findings moved to `findings`
  std::vector<Finding> findings;    // most important first
  std::vector<std::string> gaps;    // what one side has and the other lacks
  size_t compared_checks = 0;
  std::vector<std::string> missing;   // checks that had nothing to compare, with the reason
  bool sides_are_scripts = false;     // no packs: collected from a file each
  bool gate_needs_missing = false;    // one of those was asked for: no gate may pass without it
  std::vector<std::string> warnings;  // of sides that were collected for it
  double seconds = 0;
};

Verdict VerdictOf(const CompareRun& run);
bool HasErrors(const CompareRun& run);
// No check at all, or one of data or weights of which no name is on both sides: nothing that a gate
// may pass.
bool ComparedNothing(const CompareRun& run);
bool HasWarnings(const CompareRun& run);  // also gaps

// What became of one of `inputs`.
struct CollectedInput {
  std::filesystem::path path;
  size_t parameters = 0;
  std::string problem;  // empty: read
};

struct CollectSummary {
  std::filesystem::path output;  // absolute
  size_t variables = 0;          // of the environment
  size_t script_variables = 0;   // that launch scripts set
  size_t masked = 0;             // of them: with a secret replaced
  std::string interpreter;       // empty: none was found
  size_t packages = 0;
  std::vector<std::string> versions;  // "CANN 8.0.RC1", "NVIDIA driver 535.1": beside the packages
  std::vector<CollectedInput> inputs;
  size_t parameters = 0;         // after merging all inputs; 0: the pack has no hyperparameters
  size_t masked_parameters = 0;  // values in them, and in those of the running program
  std::vector<std::string> warnings;

  // False when an input that was named could not be read: the pack is written without it, and the
  // command should say so with its exit code.
  bool complete = true;
};

// Values as Python's repr spells them; "NA" where a side does not have the setting.
struct LogSetting {
  std::string name;  // keys joined by '/'
  std::array<std::string, 2> values;
  std::array<bool, 2> present = {false, false};
  bool equal = false;  // as Python compares: 5 == 5.0, True == 1
};

struct LogSettingsRun {
  bool verified = false;               // against requirements; otherwise two logs were compared
  std::array<std::string, 2> sources;  // "npu.log line 5", "built-in requirements"
  std::vector<LogSetting> settings;    // in order of name
  size_t masked = 0;                   // values of both sides
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;

  size_t different() const;
  // Settings that both sides have.
  size_t common() const;
};

// How alike two texts are: the share of characters in their longest common pieces (the method of
// Ratcliff and Obershelp, with the shortcut for frequent characters of long texts that Python's
// standard library takes, so that ratios agree to the last digit).

// A text made ready: code points, and how often each of 64 groups of them occurs.
struct SimilarityText {
  // Only so many characters count: the work grows with their third power.
  static constexpr size_t kMaxCharacters = 1024;

  // `fold_case` lowers ASCII letters.
  SimilarityText(std::string_view utf8, bool fold_case);

  std::u32string characters;
  std::array<uint16_t, 64> histogram{};
};

// Between 0 and 1; 1 for two empty texts. Not symmetric.
double Similarity(const SimilarityText& a, const SimilarityText& b);
// The same; counts the pairs of characters that were looked at.
double Similarity(const SimilarityText& a, const SimilarityText& b, uint64_t& steps);

// Limits one check to some seconds. Two texts of kMaxCharacters may take a million steps each time;
// names and lines of code that people write take some hundred.
inline constexpr uint64_t kMostSimilaritySteps = 500'000'000;

// Never below Similarity(a, b), and quick.
double SimilarityBound(const SimilarityText& a, const SimilarityText& b);

// Bench and cmp of one comparison.
struct PackPair {
  const Pack& bench;
  const Pack& cmp;
};

// "env", ..., or "packs".
std::string_view PartName(const Finding& finding);

// How many examples a finding names.
inline constexpr size_t kMaxExamples = 4;
void AddExample(Finding& finding, std::string text);
// A value for an example: short and printable.
std::string Shown(std::string_view value);

// Each needs its part in both packs; not ok only when a member cannot be read.
Result<CheckResult> CheckEnv(const PackPair& packs, const CheckOptions& options);
Result<CheckResult> CheckPip(const PackPair& packs, const CheckOptions& options);
Result<CheckResult> CheckDataset(const PackPair& packs);
Result<CheckResult> CheckWeights(const PackPair& packs);
// The search for names or code that are alike ends after `most_steps`; equal ones are still found.
Result<CheckResult> CheckHyperparameters(const PackPair& packs,
                                         uint64_t most_steps = kMostSimilaritySteps);
Result<CheckResult> CheckRandom(const PackPair& packs, uint64_t most_steps = kMostSimilaritySteps);

}  // namespace msprobe::analysis::config_check
