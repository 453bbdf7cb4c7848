// Writes dump.json / debug.json byte for byte as Python's json.dump(indent=1) would, entry by
// entry.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_tree.h"
#include "src/json/writer.h"

namespace msprobe::dump {

class DumpWriter {
 public:
  // Writes task, level, framework, dump_data_dir, then header.extras, then opens "data". An absent
  // task, level or framework is left out, as in older dumps; an absent dump_data_dir is written as
  // null. The other fields of `header` are not looked at.
  static Result<DumpWriter> Create(const std::filesystem::path& path, const DumpHeader& header);

  Status Add(std::string_view name, const EntryTree& entry);
  Status Commit();  // closes the document and renames it into place

 private:
  explicit DumpWriter(base::AtomicFile file);
  Status FlushIfLarge();

  base::AtomicFile file_;
  std::unique_ptr<std::string> buffer_;
  std::unique_ptr<json::Writer> json_;
};

}  // namespace msprobe::dump
