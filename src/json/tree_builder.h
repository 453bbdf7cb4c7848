// Builds a tree of nlohmann/json from events in file order, without recursion and within limits.
// Settings keep the line and the spelling of every value beside the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/json/document.h"

namespace msprobe::json::internal {

// How a document is read: settings of ours, where a key given twice is a mistake, or data of
// somebody else's program, where the last one counts.
enum class TreeUse : uint8_t { kSettings, kData };

struct TreeLimits {
  size_t nodes;
  size_t depth;
};
constexpr uint64_t kConfigLimitBytes = uint64_t{64} << 20U;
constexpr size_t kConfigNodes = 4'000'000;
constexpr size_t kConfigDepth = 100;
constexpr TreeLimits kConfigLimits = {kConfigNodes, kConfigDepth};

// The place of a value for messages: its line (1-based) and, for scalars other than text, the
// spelling in the file, as a part of Tree::spellings.
struct Note {
  int line = 0;
  uint32_t spelling = 0;
  uint32_t spelling_size = 0;
};

struct Tree {
  Json root;
  std::vector<Note> notes;  // one per value of `root`, in document order; none of data
  std::string spellings;

  Tree() = default;
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = default;
  ~Tree() { TakeApart(root); }
};

class TreeBuilder {
 public:
  explicit TreeBuilder(TreeUse use, TreeLimits limits = kConfigLimits)
      : use_(use), limits_(limits) {}

  // All return false once something is wrong; status() then names the line.
  bool Add(Json scalar, int line, std::string_view spelling = {});
  // A copy of a finished subtree; `notes` as last_notes() gave them.
  bool AddCopy(const Json& value, std::span<const Note> notes);
  bool Begin(Json::value_t kind, int line);
  bool Key(std::string key, int line);
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
  // The value that was finished last, where it now stands in the tree, and its notes. Valid until
  // the next event.
  const Json* last() const { return last_; }
  std::span<const Note> last_notes() const { return std::span(tree_.notes).subspan(last_note_); }
  // Counts values made outside of Add (copies), so that no document grows beyond its limit.
  bool Count(size_t nodes, int line);
  Tree Take() { return std::move(tree_); }

 private:
  struct Level {
    Json value;
    std::string key;
    int key_line = 0;
    bool has_key = false;
    bool is_merge = false;  // the key at hand is MergeKey's
    size_t first_note = 0;
    std::vector<Json> merged;    // objects; the later ones count
    std::vector<int> key_lines;  // one per member

    Level() = default;
    Level(Level&&) noexcept = default;
    ~Level();
    void Grow();
  };
  void AddNote(int line, std::string_view spelling);
  bool Place(Json&& value, size_t first_note);
  bool PlaceMerged(Level& level, Json&& value);
  static void KeepLastMembers(Level& level);

  const TreeUse use_;
  const TreeLimits limits_;
  std::vector<Level> open_;
  Tree tree_;
  const Json* last_ = nullptr;
  size_t last_note_ = 0;
  size_t nodes_ = 0;
  Status status_;
};

// A text of the same length with everything else in the same place: comments (// and /* */, all but
// their line breaks) and trailing commas become blanks; NUL bytes outside of texts become U+0001,
// because some parsers take them for the end. A comment without an end stays.
std::string StrictJson(std::string_view text);

}  // namespace msprobe::json::internal
