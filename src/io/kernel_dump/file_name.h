// The names of kernel dump files: what ran, in which task of which stream, and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msprobe::io::kernel_dump {

// {op_type}.{op_name}.{task_id}[.{stream_id}].{timestamp}[.{task_type}.{context_id}.{thread_id}
// .{device_id}]
struct DumpFileName {
  std::string op_type;
  std::string op_name;
  uint64_t task_id = 0;
  std::optional<uint64_t> stream_id;
  uint64_t timestamp = 0;  // microseconds since 1970
  std::optional<uint64_t> task_type;
  std::optional<uint64_t> context_id;
  std::optional<uint64_t> thread_id;
  std::optional<uint64_t> device_id;

  bool is_overflow() const;  // of an operator that overflowed, "Opdebug.Node_OpDebug..."
};

// Nothing for other names. Numbers that do not fit are no numbers.
std::optional<DumpFileName> ParseDumpFileName(std::string_view name);

// The name of an operator as names of files have it: '_' for '/', '.', '\' and blanks.
std::string InFileNames(std::string_view op_name);

// Names that are too long for the file system are replaced by digits, and a line
// "<digits>,<name>" of mapping.csv in the same folder tells the real one.
bool IsReplacedName(std::string_view name);
inline constexpr std::string_view kNameMappingFile = "mapping.csv";

}  // namespace msprobe::io::kernel_dump
