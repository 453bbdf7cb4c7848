// What all result tables of two runs have in common: languages, columns, files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/rl/options.h"
#include "src/analysis/rl/saved_data.h"
#include "src/base/threads.h"
#include "src/report/table.h"

namespace msprobe::analysis::rl {

struct ColumnName {
  std::string_view chinese;
  std::string_view english;
};
inline constexpr ColumnName kNoteColumn = {"备注", "note"};

inline constexpr size_t kLocationColumns = 4;  // step, rank, micro_step, id

// Of a table: first the columns that tell the location of a row, then `columns`.
std::vector<std::string> NamesOf(std::span<const ColumnName> columns, Language language);

// step, rank, micro step and id, with which every row begins.
std::vector<report::Cell> LocationCells(report::Table& table, const ArrayLocation& location);
report::Cell CountCell(uint64_t count);
report::Cell NumberCell(double value);  // empty unless it is finite
report::Cell NoteCell(report::Table& table, std::string_view note);

// Notes of rows.
std::string_view PartnerNote(const FilePair& files, Language language);  // which side is alone
std::string_view ShapesNote(Language language);

std::string_view EndingOf(FileFormat format);

// Writes <stem>.xlsx, .csv, .jsonl as `formats` says and adds their paths to `files`. `plain`: no
// filter and no frozen header.
Status WriteTable(const report::Table& table, const std::filesystem::path& stem,
                  std::span<const FileFormat> formats, bool plain, base::ThreadPool& pool,
                  std::vector<std::filesystem::path>& files);

}  // namespace msprobe::analysis::rl
