// The entries of a dump.json one after the other, as pieces of its text: for readers that look into
// few of them. Runs at several GB/s, because nothing inside an entry is decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/dump/json_source.h"
#include "src/dump/record_log.h"

namespace msprobe::dump {

// Keys of entries, of which a dump has millions, told apart without a call per word.

// key == word, for words that the compiler knows: it makes one or two comparisons of numbers.
template <size_t kSize>
bool KeyIs(std::string_view key, const char (&word)[kSize]) {
  return key.size() == kSize - 1 && std::memcmp(key.data(), word, kSize - 1) == 0;
}

struct ScannedEntry {
  std::string_view name;
  std::string_view
      text;             // its JSON value; brackets are paired, the rest is judged by a parser only
  uint64_t offset = 0;  // of `text` in the file
  // False: no value of it is NaN or infinite, however spelled, no number is beyond the range of a
  // double, and no control character stands where none may. True says nothing.
  bool is_suspicious = false;
};

struct EntryScanOutcome {
  std::optional<std::string> framework;
  std::optional<std::string> task;
  bool has_data = false;   // key "data" holds an object
  bool truncated = false;  // the file ends early: its complete entries were delivered
  // Set when the capture did not come to its end and its log of records was read instead.
  std::optional<LogConversion> recovery;
  uint64_t entry_count = 0;
  uint64_t size_bytes = 0;
};

// Walks the entries of "data" in file order, also of a file that ends early. Views are valid during
// the call only; `so_far` knows what stood in front of the entry; false stops.
using VisitScannedEntry =
    std::function<bool(const ScannedEntry& entry, const EntryScanOutcome& so_far)>;
Result<EntryScanOutcome> ScanEntries(const std::filesystem::path& path,
                                     const VisitScannedEntry& on_entry);
// The same for a text in memory.
Result<EntryScanOutcome> ScanEntryText(std::string_view text, const VisitScannedEntry& on_entry);

// Opens a file again for single entries whose places a scan has found.
class EntryAccess {
 public:
  static Result<EntryAccess> Open(const std::filesystem::path& path);
  EntryAccess(EntryAccess&&) noexcept;
  EntryAccess& operator=(EntryAccess&&) noexcept;
  ~EntryAccess();

  // An error when no such piece is in the file, or when it is not JSON.
  Result<EntryTree> Read(uint64_t offset, uint64_t bytes) const;
  // The same in the memory of an earlier tree.
  Status Read(uint64_t offset, uint64_t bytes, EntryTree& tree) const;

 private:
  struct File;
  explicit EntryAccess(std::unique_ptr<File> file);
  std::unique_ptr<File> file_;
};

}  // namespace msprobe::dump
