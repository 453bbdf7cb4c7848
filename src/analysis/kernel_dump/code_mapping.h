// From a dump of a MindSpore graph to lines of code: the graph's IR text says which scope each
// operator has and which lines it came from; names of dump files hold the scope.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/text_finder.h"

namespace msprobe::analysis::kernel_dump {

struct IrNode {
  std::string scope;       // "Default/net/Add-op0"
  std::string code_stack;  // lines "In file net.py:18, ...", outermost first
};

// Nodes of an IR file by the text that dump names hold of them: the scope with '_' for '/'. Where
// two nodes have one scope the first counts. A node without code lines of its own, a gradient,
// takes those of the forward node whose unique_id it names as forward_unique_id.
using IrNodes = std::map<std::string, IrNode, std::less<>>;

// Reads line by line: memory is that of the nodes.
Result<IrNodes> ReadIr(const std::filesystem::path& file);

// Finds all scopes that occur in a name. Borrows from the nodes.
class ScopeFinder {
 public:
  explicit ScopeFinder(const IrNodes& nodes);

  // A name holds one scope or a few. Of a name that holds more than these, or scopes with more
  // bytes of code, the first are found.
  static constexpr size_t kMostScopes = 1000;
  static constexpr size_t kMostCodeBytes = size_t{1} << 20U;

  struct Found {
    std::string code_stack;  // of all scopes, in order of their place in the name, then of length
    std::string scope_name;
    bool cut = false;  // there are more
  };
  Found Find(std::string_view op_name) const;

 private:
  std::vector<const IrNodes::value_type*> nodes_;
  base::TextFinder finder_;  // of their scopes
};

struct CodeMappingOptions {
  std::filesystem::path ir;
  std::filesystem::path dump_data;  // folder or one .npy file
  std::filesystem::path output;     // folder of code_mapping_<time>.csv
};

// What the lines of code of all rows may take: a graph may have one operator whose code every row
// repeats. As a multiple of the bytes of the graph and the tables (and 1 KiB per array), and in
// addition. The rows behind have none.
inline constexpr uint64_t kTimesMappedInput = 8;
inline constexpr uint64_t kFreeMappedBytes = uint64_t{256} << 20U;

struct CodeMapping {
  uint64_t scopes = 0;                       // in the IR
  uint64_t rows = 0;                         // dump files, or rows of statistic.csv
  uint64_t mapped = 0;                       // of them with at least one scope
  std::vector<std::filesystem::path> files;  // written: the csv, or the tables rewritten in place
  std::vector<std::string> warnings;
};

// With .npy files: a table of them. Without: every statistic.csv below the folder gets the columns
// Code Stack and Scope Name, which take the place of older ones; the file is replaced as a whole.
// kNotFound when there is neither.
Result<CodeMapping> MapCode(const CodeMappingOptions& options,
                            uint64_t free_bytes = kFreeMappedBytes);

}  // namespace msprobe::analysis::kernel_dump
