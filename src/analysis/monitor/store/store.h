// The answer of `monitor csv2db` and of `data2db`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/dump/names.h"
#include "src/monitor/trend_store.h"
#include "src/report/document.h"

namespace msprobe::analysis::monitor {

// What becomes a trend store, and under which names.

// Texts in names and what replaces them, one pair after the other.
using NameMapping = std::vector<std::pair<std::string, std::string>>;

struct StoreOptions {
  std::filesystem::path data;    // a monitored run, or a dump
  std::filesystem::path output;  // folder for the store; a file that is there is replaced
  // Steps become a running number with as many places per step as its largest micro step asks for.
  // Otherwise they stay, and names keep their micro step. Dumps have no micro steps.
  bool number_micro_steps = true;
  NameMapping mapping;
  size_t threads = 0;  // to read tables with; 0: one per core
};

// {"old": "new", ...}, in the order of the file.
Result<NameMapping> ReadMapping(const std::filesystem::path& path);
std::string Mapped(std::string name, const NameMapping& mapping);

// A trend store that was written.

struct StoreResult {
  std::filesystem::path file;
  uint64_t rows = 0;
  size_t names = 0;
  size_t ranks = 0;
  size_t unread_files = 0;  // tables of the run that are left out or end early
  std::vector<std::string> warnings;
};

// The SQLite that the program itself is linked to.
const msprobe::monitor::SqliteApi& LinkedSqlite();

// Where the calls of a dump stand: what they are called without their number, and to which micro
// step, one pass of the model forward and backward, they belong.

// "Torch.matmul" of "Torch.matmul.3.forward", "Module.fc.Linear" of "Module.fc.Linear.backward.0"
// and of "Module.fc.Linear.parameters_grad".
std::string_view NameOfCalls(std::string_view entry, const dump::EntryName& parts);

// The micro steps that construct.json tells: each call of the model, a module that has no parent,
// is one. Everything is in micro step 0 where there is no such file.
class DumpCalls {
 public:
  static DumpCalls Read(const std::filesystem::path& construct_file);

  int64_t micro_step_count() const { return micro_step_count_; }
  // Called for entries in the order of the dump: an entry without a parent module belongs to the
  // micro step of the entry before it.
  int64_t MicroStepOf(std::string_view entry);
  // How many calls of this name came before call number `call` in its micro step.
  int64_t IndexInMicroStep(std::string_view name, int64_t micro_step, int64_t call) const;

 private:
  std::unordered_map<std::string, int64_t> micro_steps_;  // by entry
  std::map<std::pair<std::string, int64_t>, int64_t, std::less<>> first_calls_;
  int64_t micro_step_count_ = 1;
  int64_t latest_ = 0;
};

// Tables of a monitored run, or the statistics of a dump, as a trend store.

// Writes monitor_data.trend.db. kNotFound when there is no monitored run.
Result<StoreResult> RunCsv2Db(const StoreOptions& options);

// Writes dump_data.trend.db of whatever dump::FindDump accepts, one dump.json after the other and
// one entry at a time; memory grows with the number of different names only. Files that are cut off
// or broken give the entries in front of that place, with a warning. kNotFound when there is
// no dump.json; an error, too, when none of them holds statistics.
Result<StoreResult> RunDump2Db(const StoreOptions& options);

// Splits the name of a tensor of a dump, "Module.layers.0.fc.Linear.forward.0.input.0": default
// "Module", module "layers" and "fc", layer "layers.0", function "Linear", index "input.0".
std::vector<msprobe::monitor::TrendStore::NameTag> TagsOfDumpName(std::string_view name);

// The answer about the tables of a run, of a dump, or both; at least one.
report::Document MakeDocument(std::span<const StoreResult> stores);

}  // namespace msprobe::analysis::monitor
