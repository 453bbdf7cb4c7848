#include "src/analysis/response_anomaly/run.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/response_anomaly/judge.h"
#include "src/analysis/response_anomaly/limits_file.h"
#include "src/analysis/response_anomaly/line_reader.h"
#include "src/analysis/response_anomaly/model_table.h"
#include "src/analysis/response_anomaly/request.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/report/writers.h"

namespace msprobe::analysis::response_anomaly {
namespace {

// Rows on their way to the file.
class RowFile {
 public:
  static Result<RowFile> Create(const std::filesystem::path& path) {
    RowFile rows;
    rows.is_csv_ = base::AsciiLower(path.extension().string()) == ".csv";
    MSP_ASSIGN_OR_RETURN(rows.file_, base::AtomicFile::Create(path));
    return rows;
  }

  Status Add(const Row& row) {
    AddRow(row, table_);
    return table_.row_count() >= kRowsAtOnce ? Flush() : Status();
  }
  Status Commit() {
    MSP_RETURN_IF_ERROR(Flush());
    return file_.Commit();
  }

 private:
  static constexpr size_t kRowsAtOnce = 512;

  Status Flush() {
    std::string text = is_csv_ ? report::CsvText(table_) : report::JsonLinesText(table_);
    if (is_csv_) {
      if (std::exchange(has_header_, true)) {
        text.erase(0, text.find('\n') + 1);
      } else {
        text.insert(0, "\xef\xbb\xbf");
      }
    }
    table_ = NewTable();
    return file_.Write(text);
  }

  base::AtomicFile file_;
  report::Table table_ = NewTable();
  bool is_csv_ = false;
  bool has_header_ = false;
};

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

void Count(const Row& row, bool is_known_model, Findings& findings) {
  const Judgement& judgement = row.judgement;
  ++findings.requests;
  findings.tokens += judgement.tokens;
  ++findings.of[static_cast<size_t>(judgement.illness)];
  findings.by_categories += judgement.by_categories ? 1U : 0U;
  findings.unfinished += is_known_model && !judgement.by_categories ? 1U : 0U;
  findings.only_minus_infinity += judgement.illness == Illness::kNotFinite &&
                                          judgement.nans + judgement.positive_infinities == 0
                                      ? 1U
                                      : 0U;
  findings.short_repeats +=
      judgement.illness == Illness::kNone &&
              judgement.repeats_both + judgement.repeats_trajectory + judgement.repeats_period > 0
          ? 1U
          : 0U;
  if (judgement.illness != Illness::kNone && findings.ill.size() < Findings::kMostNamed) {
    findings.ill.push_back(row);
  }
}

}  // namespace

Result<Findings> Run(const Options& options, const OnRow& on_row) {
  Limits limits;
  if (!options.config.empty()) {
    MSP_ASSIGN_OR_RETURN(limits, LoadLimits(options.config));
  }
  ModelTable models;
  if (!options.models.empty()) {
    MSP_ASSIGN_OR_RETURN(models, ModelTable::Load(options.models, options.categories));
  }
  Findings findings;
  if (!options.categories.empty() && models.with_categories() == 0) {
    findings.warnings.push_back(
        fmt::format("{} has no file <name>_<size>.json for a model of {}: nothing is judged by "
                    "categories",
                    options.categories.string(), options.models.string()));
  }
  MSP_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(options.input));
  std::vector<RowFile> files;
  for (const std::filesystem::path& path : options.row_files) {
    MSP_ASSIGN_OR_RETURN(RowFile file, RowFile::Create(path));
    files.push_back(std::move(file));
  }
  Judge judge(limits, models);
  Request request;
  Row row;
  for (;;) {
    std::string_view line;
    MSP_ASSIGN_OR_RETURN(const LineReader::Line kind, lines.Next(line));
    if (kind == LineReader::Line::kEnd) {
      break;
    }
    const uint64_t number = row.line + 1;
    row = {};
    row.line = number;
    if (kind == LineReader::Line::kLine && IsBlank(line)) {
      continue;
    }
    Status read = kind == LineReader::Line::kTooLong
                      ? BadFormatError(fmt::format("longer than {}",
                                                   base::FormatBytes(LineReader::kLongestLine)))
                      : ParseRequest(line, request);
    if (read.ok()) {
      read = judge.CheckWork(request.tokens.size());
    }
    if (read.ok()) {
      row.name = request.name;
      row.model = request.model;
      row.judgement = judge.Examine(request);
      const Model* model = models.Find(request.model);
      Count(row, model != nullptr && model->categories != nullptr, findings);
    } else {
      row.error = read.message();
      ++findings.unreadable;
      if (findings.unread.size() < Findings::kMostNamed) {
        findings.unread.push_back(row);
      }
    }
    for (RowFile& file : files) {
      MSP_RETURN_IF_ERROR(file.Add(row));
    }
    if (on_row) {
      MSP_RETURN_IF_ERROR(on_row(row));
    }
  }
  findings.bytes = lines.bytes_read();
  for (size_t i = 0; i < files.size(); ++i) {
    MSP_RETURN_IF_ERROR(files[i].Commit());
    findings.files.push_back(options.row_files[i]);
  }
  return findings;
}

}  // namespace msprobe::analysis::response_anomaly
