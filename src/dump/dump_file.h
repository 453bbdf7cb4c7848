// dump.json and debug.json: header keys, then entries one by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/dump/dump_json_writer.h"
#include "src/dump/entry_tree.h"

namespace msprobe::dump {

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

// Of a piece of a file's text, for EntryAccess.
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
};

// Streams the file. `on_entry` gets every entry of "data" in file order, whatever its value is
// (look at the node's kind) and also when its name occurs twice; name and tree are valid during the
// call only. A non-ok Status from it ends reading and is returned. Header keys may stand before or
// after "data".
Result<DumpHeader> ReadDumpFile(
    const std::filesystem::path& path, const ReadOptions& options,
    const std::function<Status(std::string_view name, const EntryTree& entry)>& on_entry);

}  // namespace msprobe::dump
