// Saved arrays of both runs in pairs, tokens compared, and the result tables.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/rl/rl.h"
#include "src/analysis/rl/token_numbers.h"
#include "src/base/files.h"
#include "src/base/threads.h"
#include "src/report/table.h"

namespace msprobe::analysis::rl {

// Files of SingleSave: <folder>/data/<key>/step<S>/rank<R>/[micro_step<M>/]<key>[.<member>].npy

struct ArrayLocation {
  int64_t step = 0;
  int64_t rank = 0;
  int64_t micro_step = 0;  // 0 where there are no micro steps
  std::string member;      // of a list its number, of a dict its key; empty for a single tensor

  // Numbers among the members are in numerical order.
  std::strong_ordering operator<=>(const ArrayLocation& other) const;
  bool operator==(const ArrayLocation& other) const = default;
};

using LocatedFiles = std::map<ArrayLocation, std::filesystem::path>;

struct SavedData {
  std::map<std::string, LocatedFiles> keys;
  std::vector<std::string> warnings;  // folders whose names are not understood
};

Result<SavedData> FindSavedData(const std::filesystem::path& folder);

// Rollouts as training frameworks store them, made into what SingleSave stores.

// Whether the path is a folder of SingleSave; everything else has to be converted.
bool IsSavedBySingleSave(const std::filesystem::path& path);

// Our name for the key of a framework; the same name if there is none.
std::string_view OurNameOfKey(std::string_view key);

// The keys that are used without being asked for where a run was converted.
inline constexpr std::string_view kMaskKey = "response_mask";
inline constexpr std::string_view kIdsKey = "responses";

// Holds what was converted, as long as this object, also after an interrupt; the folder has the
// name of those that the next process removes after a kill.
class ConvertedRuns {
 public:
  ConvertedRuns() = default;
  ConvertedRuns(const ConvertedRuns&) = delete;
  ConvertedRuns& operator=(const ConvertedRuns&) = delete;
  ~ConvertedRuns();

  // Puts a folder of SingleSave in the place of what it has not written.
  Status Convert(std::filesystem::path& first, std::filesystem::path& second,
                 std::vector<std::string>& warnings);

 private:
  Status Create();

  std::filesystem::path path_;
  base::Descriptor lock_{-1};
  int slot_ = -1;
};

// The files of one location on both sides, at least one of them.
struct FilePair {
  ArrayLocation location;
  std::optional<std::filesystem::path> first;
  std::optional<std::filesystem::path> second;
};
// In the order of their locations.
std::vector<FilePair> PairFiles(const LocatedFiles& first, const LocatedFiles& second);

// The array that belongs to the log-probabilities of a location: that of the same member, or one
// for all members. Null: there is none.
const std::filesystem::path* FindBeside(const LocatedFiles& files, const ArrayLocation& location);

std::string LocationText(const ArrayLocation& location);  // "step 0, rank 0, micro step 1, name"

// Log-probabilities of the same tokens, computed twice: how far the probabilities are apart, and at
// which tokens.

// Names of the result files begin with the key of the first run.
inline constexpr std::string_view kTokensEnding = ".tokens";
inline constexpr std::string_view kTokenStepsEnding = ".token_steps";

// Two arrays of log-probabilities.
struct TokenPair {
  FilePair files;
  std::optional<Shape> first_shape;  // of what could be opened
  std::optional<Shape> second_shape;
  std::optional<TokenNumbers> numbers;  // absent without a partner and after an error
  std::string error;
};

struct TokenComparison {
  TokenKey key;
  std::vector<TokenPair> pairs;  // in the order of their places
  std::vector<WorstToken> worst;
  std::vector<std::optional<double>> ids;  // of the worst tokens; empty unless ids are wanted
  std::string ids_problem;                 // why some tokens lack their id
  TokenNumbers all;
};

// A usage error if a key is missing, or if two results would have one name.
Status CheckTokenKeys(const TokenOptions& options, const SavedData& first, const SavedData& second);

// Results do not depend on the number of threads. `quiet`: no progress is shown.
TokenComparison CompareTokenKey(const TokenKey& key, const TokenOptions& options,
                                const SavedData& first, const SavedData& second,
                                base::ThreadPool& pool, bool quiet);

TokenSummary Summarize(const TokenComparison& comparison);
// Warnings about the tokens that were left out, sentence by sentence.
std::vector<std::string> WarningsOf(const TokenComparison& comparison);

// Common to all result tables: languages, columns, files.

struct ColumnName {
  std::string_view chinese;
  std::string_view english;
};
inline constexpr ColumnName kNoteColumn = {"备注", "note"};

inline constexpr size_t kLocationColumns = 4;  // step, rank, micro_step, id

// The header of a table: the columns with the location of a row, then `columns`.
std::vector<std::string> NamesOf(std::span<const ColumnName> columns, Language language);

// step, rank, micro step and id, with which every row begins.
std::vector<report::Cell> LocationCells(report::Table& table, const ArrayLocation& location);
report::Cell CountCell(uint64_t count);
report::Cell NumberCell(double value);  // empty unless it is finite
report::Cell NoteCell(report::Table& table, std::string_view note);

// Notes of rows.
std::string_view PartnerNote(const FilePair& files, Language language);  // which side is alone
std::string_view ShapesNote(Language language);

std::string_view EndingOf(FileFormat format);

// Writes <stem>.xlsx, .csv, .jsonl as `formats` says and adds their paths to `files`. `plain`: no
// filter and no frozen header.
Status WriteTable(const report::Table& table, const std::filesystem::path& stem,
                  std::span<const FileFormat> formats, bool plain, base::ThreadPool& pool,
                  std::vector<std::filesystem::path>& files);

// The worst tokens, one per row; with a column of ids where they are wanted.
report::Table WorstTokensTable(const TokenComparison& comparison, Language language);

// One row per pair of arrays, so that drift over the steps shows.
report::Table TokenStepsTable(const TokenComparison& comparison, Language language);

}  // namespace msprobe::analysis::rl
