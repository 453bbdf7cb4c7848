// One side of a comparison in memory: every row that a dump.json or debug.json gives, texts kept in
// one arena.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"

#include "src/analysis/compare/options.h"
#include "src/dump/dump_file.h"
#include "src/dump/names.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

// Texts that a spreadsheet could take for a formula. They are always written as plain text; that
// they occur is worth a warning.

// Starts with one of + - = % @ (or their full-width forms), or has one of them behind a semicolon,
// and is not a number.
bool LooksLikeFormula(std::string_view text);

// requires_grad of a leaf: whether it has the field, and its value.
enum class RequiresGrad : uint8_t { kAbsent, kFalse, kTrue, kNone };

enum class StatKind : uint8_t { kNone, kNumber, kInteger, kBool, kText };

// A statistic or the value of a scalar argument, as the dump holds it.
struct StatValue {
  union {
    double number = 0;      // kNumber, kInteger
    const char* text_data;  // kText
  };
  union {
    uint32_t text_bytes = 0;  // kText
    int32_t beyond_number;    // kInteger: what it is more than `number`, which rounds large ones
  };
  StatKind kind = StatKind::kNone;
  bool boolean = false;

  int64_t integer() const {  // kInteger
    return number >= 0x1p63 ? INT64_MAX + (beyond_number + 1)
                            : static_cast<int64_t>(number) + beyond_number;
  }
  void SetInteger(int64_t integer) {
    kind = StatKind::kInteger;
    number = static_cast<double>(integer);
    beyond_number = static_cast<int32_t>(number >= 0x1p63 ? integer - INT64_MAX - 1
                                                          : integer - static_cast<int64_t>(number));
  }
  std::string_view text() const {
    return kind == StatKind::kText ? std::string_view(text_data, text_bytes) : std::string_view();
  }
  // Makes it a text, which must outlive it; of no text more than 4 GiB count.
  void SetText(std::string_view text) {
    kind = StatKind::kText;
    text_data = text.data();
    text_bytes = static_cast<uint32_t>(std::min<size_t>(text.size(), UINT32_MAX));
  }
  bool is_numeric() const { return kind == StatKind::kNumber || kind == StatKind::kInteger; }
};

using Stat = dump::Statistic;
using dump::kMax;
using dump::kMean;
using dump::kMin;
using dump::kNorm;
inline constexpr size_t kStatCount = dump::kStatisticCount;

struct SideRow {
  std::string_view name;   // "Functional.conv2d.0.forward.input.0"
  std::string_view dtype;  // "torch.float32", "<class 'int'>", "None"
  std::string_view shape;  // "[2, 3]", "None"
  std::string_view type;   // "torch.Tensor", "int", "slice"; empty for null
  std::array<StatValue, kStatCount> stats;
  std::string_view data_name;  // tensor file, "-1" when there is none
  std::string_view
      md5;  // checksum text; of scalars the CRC-32 of their Python text; "N/A" for null
  // Why the row is shown but not compared (unknown name form, nested too deep); empty when nothing
  // is wrong.
  std::string_view problem;
  std::string_view api_name;    // dump::RowName::api_name
  uint32_t entry = 0;           // index into Side::entries
  uint32_t leaf = 0;            // of the entry's tree: the node that the row was made of
  uint32_t point_to_point = 0;  // index into Side::point_to_point plus 1; 0: none
  // Measured by repetitions of the call (`msprobe dump --repeat`), for outputs: half the width of
  // the interval that holds its results, relative to them, and how many digits are significant.
  // Negative where nothing is recorded.
  float noise_floor = -1;
  float digits = -1;
  dump::RowState state = dump::RowState::kInput;
  bool is_tensor = false;  // a leaf with a dtype
  RequiresGrad requires_grad = RequiresGrad::kAbsent;
  // What each summand of a joined gradient was rounded to, if that is coarser than its dtype.
  DType rounded_to = DType::kFloat64;
};

// True for inputs and kwargs; all other rows are results.
inline bool IsInput(const SideRow& row) {
  return row.state == dump::RowState::kInput || row.state == dump::RowState::kKwargs;
}

struct SideEntry {
  std::string_view name;  // "Functional.conv2d.0.forward"
  uint32_t first_row =
      0;  // rows of one entry are consecutive: inputs, parameters, outputs, parameters_grad
  uint32_t row_count = 0;
};

// The names of rows are made of the keys above them: of a key of a megabyte above a list of a
// million nulls they would fill any memory. Those of a side take no more than this many bytes, and
// this many for each byte that its entries hold.
inline constexpr uint64_t kMostRowNameBytes = uint64_t{64} << 20U;
inline constexpr uint64_t kRowNameBytesPerByte = 8;

struct Side {
  std::filesystem::path json_path;
  std::filesystem::path tensor_folder;  // dump_tensor_data beside the json
  dump::DumpHeader header;
  Framework framework = Framework::kUnknown;
  bool is_debug = false;  // debug.json
  bool has_md5 = false;
  std::vector<SideEntry> entries;  // in file order
  std::vector<SideRow> rows;
  // Operation and peer of a torch.distributed.P2POp, of batched point-to-point calls. Read
  // for Edition::kV26 only.
  struct PointToPoint {
    std::string_view operation;  // "isend"
    std::string_view peer;       // "1"
  };
  std::vector<PointToPoint> point_to_point;
  std::vector<std::string>
      warnings;  // entries nested too deep, names of unknown form, suspicious texts

  std::string_view Keep(std::string_view text) { return arena_->Keep(text); }
  // Texts that repeat (dtypes, shapes) are kept once.
  std::string_view Intern(std::string_view text);

 private:
  std::unique_ptr<report::TextArena> arena_ = std::make_unique<report::TextArena>();
  std::unordered_set<std::string_view> interned_;
};

struct SideOptions {
  bool allow_truncated = false;
  // With kV26 arguments named src, dst, group_src and group_dst and process groups are texts, and a
  // P2POp is one row.
  Edition edition = Edition::kV8;
  // Selects the entries to keep; called in file order. Null: all.
  std::function<bool(std::string_view entry_name)> keep_entry;
  // With keep_entry: what is left out is not decoded, so that its errors are not found, and of the
  // header only task and framework are read. A file that ends early is an error.
  bool skim = false;
  // If set: gets the place of each entry that is kept, as ReadOptions::places.
  std::vector<dump::TextPlace>* places = nullptr;
};
Result<Side> LoadSide(const std::filesystem::path& json_path, const SideOptions& options = {});

}  // namespace msprobe::analysis::compare
