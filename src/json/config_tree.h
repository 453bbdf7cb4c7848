// Inside of the room: builds the tree of config.h from events in file order, without recursion,
// within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/json/config.h"

namespace msprobe::json::internal {

constexpr uint64_t kConfigLimitBytes = uint64_t{64} << 20U;
constexpr int kConfigDepth = 100;
constexpr size_t kConfigNodes = 4'000'000;

// How a document is read: settings of ours, where a key given twice is a mistake, or data of
// somebody else's program, where the last one counts.
enum class TreeUse : uint8_t { kSettings, kData };

class TreeBuilder {
 public:
  explicit TreeBuilder(TreeUse use = TreeUse::kSettings) : use_(use) {}

  // All return false once something is wrong; status() then names the line.
  bool Add(ConfigValue value);                            // a scalar, or a finished subtree
  bool Begin(ConfigKind kind, int line, size_t end = 0);  // `end`: ConfigValue::end
  bool Key(std::string key, int line, ConfigKind kind = ConfigKind::kText);
  // The next value is an object, or a list of them, whose members stand in for missing ones here.
  bool MergeKey(int line);
  bool End();
  bool Fail(int line, std::string_view complaint);

  bool open() const { return !open_.empty(); }
  // True where an object waits for its next key.
  bool expects_key() const;
  size_t depth() const { return open_.size(); }
  bool failed() const { return !status_.ok(); }
  const Status& status() const { return status_; }
  // The value that was finished last, where it now stands in the tree. Valid until the next event.
  const ConfigValue* last() const { return last_; }
  // Counts values made outside of Add (copies), so that no document grows beyond its limit.
  bool Count(size_t nodes, int line);
  ConfigValue TakeRoot() { return std::move(root_); }

 private:
  struct Level {
    ConfigValue value;
    std::string key;
    int key_line = 0;
    bool has_key = false;
    bool is_merge = false;  // the key at hand is MergeKey's
    ConfigKind key_kind = ConfigKind::kText;
    std::vector<ConfigValue> merged;  // objects; the later ones count
    std::vector<int> key_lines;       // one per member
  };
  bool Place(ConfigValue value);
  bool PlaceMerged(Level& level, ConfigValue value);
  bool CheckDuplicates(const Level& level);
  static void KeepLastMembers(Level& level);

  const TreeUse use_;
  std::vector<Level> open_;
  ConfigValue root_;
  const ConfigValue* last_ = nullptr;
  size_t nodes_ = 0;
  Status status_;
};

}  // namespace msprobe::json::internal
