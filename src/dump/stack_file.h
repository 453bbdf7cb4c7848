// stack.json and construct.json: where in the user's code a call was made, and which module
// contains it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/hash_index.h"
#include "src/base/strings.h"

namespace msprobe::dump {

// Both layouts: {"0": [[names...], [frames...]], ...} and {"<name>": [frames...]}. A key "0" with a
// value tells the first one.
class StackFile {
 public:
  static Result<StackFile> Read(const std::filesystem::path& path);
  // The frames of a call, innermost first as recorded; null when the file has none for it.
  const std::vector<std::string>* Find(std::string_view name) const;
  // A further call; of a name that is there already the frames are replaced.
  void AddCall(std::string_view name, std::vector<std::string> frames);
  bool grouped_layout() const { return grouped_layout_; }  // the newer of the two

 private:
  struct Call {
    std::string_view name;
    uint32_t stack = 0;
  };

  void Add(std::string_view name, uint32_t stack);

  std::vector<std::vector<std::string>> stacks_;
  std::vector<Call> calls_;  // each name once
  base::HashIndex call_of_name_;
  std::unique_ptr<base::TextArena> names_ = std::make_unique<base::TextArena>();
  bool grouped_layout_ = false;
};

// {"<name>": "<parent name>" | null | ""}. In newer dumps a value may be a list: the parent and the
// number of the micro step. Members with values of other kinds are notes, not names, and left out.
class ConstructFile {
 public:
  struct Member {
    std::string_view name;
    std::string_view parent;  // empty: none
    std::optional<int64_t> micro_step;
  };

  static Result<ConstructFile> Read(const std::filesystem::path& path);
  // The parent's full name; empty when there is none.
  std::string_view ParentOf(std::string_view name) const;
  const Member* Find(std::string_view name) const;  // null: not there
  bool empty() const { return members_.empty(); }
  // A further name; nothing happens where it is there already.
  void AddName(std::string_view name, std::string_view parent);
  // In the file's order; a name that stands there twice has its first place and its last parent.
  const std::vector<Member>& members() const { return members_; }
  // The note "megatron_micro_step_number": the last micro step.
  std::optional<int64_t> last_micro_step() const { return last_micro_step_; }

 private:
  std::vector<Member> members_;
  base::HashIndex place_of_name_;
  std::unique_ptr<base::TextArena> texts_ = std::make_unique<base::TextArena>();
  std::optional<int64_t> last_micro_step_;
};

// The module of an entry as answers name it, "layers.2.attn (Attn)"; empty where it is of none.
struct EntryName;
std::string LayerText(const EntryName& entry);

// The user's own code in a recorded call stack: the one list of what is not his.

// False for frames of the framework, of this tool, of installed packages and of Python's own
// library, and for those that say how a call was made and not where: `_call_impl` and `__call__`
// run hooks around a module's forward.
bool IsUserFrame(std::string_view frame);

// "File /a/models.py, line 43, in forward, \n return x" as "/a/models.py:43 in forward: return x",
// which editors and terminals open at a click. Other layouts stay as they are, in one line.
std::string FrameInOneLine(std::string_view frame);

// The frames of the user's own code, innermost first; all of them where there are none.
std::vector<std::string> UserFrames(const std::vector<std::string>& frames);

// The innermost of UserFrames as "/a/models.py:43 in forward: return self.fc2(x)"; empty for an
// empty stack.
std::string UserCodeLine(const std::vector<std::string>& frames);

}  // namespace msprobe::dump
