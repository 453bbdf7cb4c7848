// dump.json and debug.json: header keys, then entries one by one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/dump/json_source.h"
#include "src/dump/record_log.h"

namespace msprobe::dump {

// The four statistics that dump.json holds of a tensor: the one list that writes, reads and
// compares them.

// In the order of the files and of all tables made from them.
enum Statistic : uint8_t { kMax, kMin, kMean, kNorm };
inline constexpr size_t kStatisticCount = 4;
inline constexpr std::array<std::string_view, kStatisticCount> kStatisticKeys = {"Max", "Min",
                                                                                 "Mean", "Norm"};
constexpr std::string_view KeyOf(Statistic statistic) { return kStatisticKeys[statistic]; }

// The values of a dump's entries by name: tensors, scalar arguments, nulls.

// Visits every value of an entry in file order. Names are those of a comparison's rows:
// "Functional.conv2d.0.forward.input.0"; keyword arguments count as inputs, and below
// parameters_grad list positions are left out. Not recursive, so that no nesting hurts.
class LeafWalker {
 public:
  using Visit = std::function<void(std::string_view name, uint32_t index)>;

  void ForEach(std::string_view entry_name, const EntryTree& tree, const Visit& visit);

 private:
  struct Open {
    uint32_t index;       // of the container
    size_t name_length;   // of its own name
    uint32_t next_child;  // position of the next one
  };

  std::string name_;
  std::vector<Open> open_;
};

// An object that describes a tensor: it has a non-empty text "dtype".
bool IsTensorLeaf(const EntryTree& tree, uint32_t index);
// The text under a key of a leaf; empty when absent or something else.
std::string_view LeafText(const EntryTree& tree, uint32_t index, std::string_view key);

// The data_name of a tensor: a dump names files of its own folder; anything else is damage or an
// attack.
Status CheckDataName(std::string_view data_name);

struct DumpHeader {
  // A key of the top object that is none of those below.
  struct Extra {
    std::string key;
    EntryTree value;
  };

  // nullopt: the key is absent or not text.
  std::optional<std::string> task;
  std::optional<std::string> level;
  std::optional<std::string> framework;
  std::optional<std::string> dump_data_dir;
  std::vector<Extra> extras;  // in file order; at most kMaxExtras are kept
  bool has_data = false;      // key "data" holds an object
  bool truncated = false;     // the file ended early; the complete entries before it were delivered
  // Set when the capture did not come to its end and its log of records was read instead of the
  // file.
  std::optional<LogConversion> recovery;
  uint64_t entry_count = 0;
  uint64_t size_bytes = 0;  // of the text
};

inline constexpr size_t kMaxExtras = 1000;

// The place of a piece of a file's text, for EntryAccess.
struct TextPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct ReadOptions {
  // A file that ends early gives its complete entries instead of an error.
  bool allow_truncated = false;
  // If set: gets the place of each entry of "data", as long as that costs nothing. Fewer places
  // than entries: ScanEntries tells the others.
  std::vector<TextPlace>* places = nullptr;
  // If set: holds, while `on_entry` runs, how many bytes of the text were read, of `size_bytes`.
  uint64_t* read_bytes = nullptr;
  uint64_t* size_bytes = nullptr;
};

// Streams the file. `on_entry` gets every entry of "data" in file order, whatever its value is
// (look at the node's kind) and also when its name occurs twice; name and tree are valid during the
// call only. A non-ok Status from it ends reading and is returned. Header keys may stand before or
// after "data".
Result<DumpHeader> ReadDumpFile(
    const std::filesystem::path& path, const ReadOptions& options,
    const std::function<Status(std::string_view name, const EntryTree& entry)>& on_entry);

}  // namespace msprobe::dump
