#include "src/analysis/compare/junit.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/analysis/compare/run_verdict.h"
#include "src/report/sheet_xml.h"

namespace msprobe::analysis {
namespace {

// Text for XML content and attributes; line breaks and tabs, which an attribute would lose, become
// blanks there.
std::string Escape(std::string_view text, bool in_attribute) {
  std::string out = report::internal::EscapedXml(text);
  if (in_attribute) {
    std::replace_if(
        out.begin(), out.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  }
  return out;
}

void AppendCase(std::string& out, std::string_view name, double seconds, std::string_view element,
                std::string_view type, std::string_view message, std::string_view body) {
  out += fmt::format("  <testcase classname=\"compare\" name=\"{}\" time=\"{:.3f}\"",
                     Escape(name, true), seconds);
  if (element.empty()) {
    out += "/>\n";
    return;
  }
  out += fmt::format(">\n   <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n  </testcase>\n", element,
                     Escape(type, true), Escape(message, true), Escape(body, false));
}

void AppendPoint(std::string& text, std::string_view title, const DivergencePoint& point) {
  text += fmt::format("{}: {}\n  row {}\n  error {} in, {} out\n", title, PointTitle(point),
                      point.row_name, ErrorText(point.input_error), ErrorText(point.output_error));
  if (!point.code_line.empty()) {
    text += fmt::format("  code {}\n", point.code_line);
  }
  if (!point.note.empty()) {
    text += fmt::format("  note {}\n", point.note);
  }
}

std::string Details(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  std::string text = fmt::format(
      "{} rows: {} identical, {} within noise, {} differ, {} not compared\n"
      "unmatched: {} NPU only, {} bench only, {} other shape, {} other dtype\n",
      counts.rows, counts.identical, counts.agreeing - counts.identical, counts.differing,
      counts.not_compared, counts.npu_only, counts.bench_only, counts.shape_mismatch,
      counts.dtype_mismatch);
  for (const std::optional<DivergencePoint>& point : pair.divergence.first_of_kind) {
    if (point) {
      AppendPoint(text, fmt::format("first {}", OriginKindName(point->kind)), *point);
    }
  }
  if (pair.divergence.first_drift) {
    AppendPoint(text, "first drift", *pair.divergence.first_drift);
  }
  for (const std::filesystem::path& file : pair.files) {
    text += fmt::format("file {}\n", file.string());
  }
  return text;
}

std::string FailureMessage(const PairSummary& pair, PairVerdict verdict) {
  if (pair.divergence.first_origin) {
    return fmt::format("{} rows differ; first origin: {}", pair.counts.differing,
                       PointTitle(*pair.divergence.first_origin));
  }
  return verdict == PairVerdict::kDrifts
             ? fmt::format("{} rows differ; rounding noise piled up", pair.counts.differing)
             : fmt::format("{} rows differ", pair.counts.differing);
}

}  // namespace

std::string JunitXml(const RunSummary& summary) {
  std::string cases;
  size_t failures = 0;
  for (const PairSummary& pair : summary.pairs) {
    const PairVerdict verdict = VerdictOf(pair);
    const double seconds =
        pair.timings.load_seconds + pair.timings.compare_seconds + pair.timings.write_seconds;
    const std::string name = PairName(pair);
    if (verdict == PairVerdict::kFailed) {
      AppendCase(cases, name, seconds, "error", "not compared", pair.error, "");
    } else if (verdict == PairVerdict::kDiffers || verdict == PairVerdict::kDrifts) {
      ++failures;
      AppendCase(cases, name, seconds, "failure", PairVerdictName(verdict),
                 FailureMessage(pair, verdict), Details(pair));
    } else {
      AppendCase(cases, name, seconds, "", "", "", "");
    }
  }
  for (const auto& [names, side] :
       {std::pair{&summary.npu_only, "bench"}, std::pair{&summary.bench_only, "NPU"}}) {
    for (const std::string& name : *names) {
      ++failures;
      AppendCase(cases, name, 0, "failure", "unmatched",
                 fmt::format("the {} side has no such rank", side), "");
    }
  }
  const size_t count = summary.pairs.size() + summary.npu_only.size() + summary.bench_only.size();
  const std::string totals =
      fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3f}\"", count, failures,
                  summary.failed_pairs, summary.seconds);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n <testsuite name=\"msprobe "
      "compare\" {0}>\n{1}"
      " </testsuite>\n</testsuites>\n",
      totals, cases);
}

}  // namespace msprobe::analysis
