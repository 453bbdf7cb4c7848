// stack.json and construct.json: where in the user's code a call was made, and which module contains it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::dump {

// Both layouts: {"0": [[names...], [frames...]], ...} and {"<name>": [frames...]}.
class StackFile {
 public:
  static Result<StackFile> Read(const std::filesystem::path& path);
  // The frames of a call, innermost first as recorded; null when the file has none for it.
  const std::vector<std::string>* Find(std::string_view name) const;
  bool grouped_layout() const { return grouped_layout_; }   // the newer of the two

 private:
  std::vector<std::vector<std::string>> stacks_;
  std::unordered_map<std::string, uint32_t> stack_of_name_;
  bool grouped_layout_ = false;
};

// {"<name>": "<parent name>" | null | ""}. In newer dumps a value may be a list whose first item is the parent.
class ConstructFile {
 public:
  static Result<ConstructFile> Read(const std::filesystem::path& path);
  // The parent's full name; empty when there is none.
  std::string_view ParentOf(std::string_view name) const;
  bool empty() const { return parent_of_name_.empty(); }

 private:
  std::unordered_map<std::string, std::string> parent_of_name_;
};

}  // namespace msprobe::dump
