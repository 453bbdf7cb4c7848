#include "src/report/junit.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/report/sheet_xml.h"

namespace msprobe::report {
namespace {

// Text for XML content and attributes; line breaks and tabs, which an attribute would lose, become
// blanks there.
std::string Escape(std::string_view text, bool in_attribute) {
  std::string out = internal::EscapedXml(text);
  if (in_attribute) {
    std::replace_if(
        out.begin(), out.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  }
  return out;
}

std::string CaseXml(std::string_view command, const JunitCase& one) {
  std::string out = fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                                Escape(command, true), Escape(one.name, true), one.seconds);
  if (one.outcome == JunitOutcome::kPassed) {
    return out + "/>\n";
  }
  return out + fmt::format(">\n   <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n  </testcase>\n",
                           one.outcome == JunitOutcome::kError ? "error" : "failure",
                           Escape(one.type, true), Escape(one.message, true),
                           Escape(one.details, false));
}

}  // namespace

std::string JunitXml(std::string_view command, std::span<const JunitCase> cases, double seconds) {
  const auto count = [&](JunitOutcome outcome) {
    return std::count_if(cases.begin(), cases.end(),
                         [&](const JunitCase& one) { return one.outcome == outcome; });
  };
  std::string body;
  for (const JunitCase& one : cases) {
    body += CaseXml(command, one);
  }
  const std::string totals =
      fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3f}\"", cases.size(),
                  count(JunitOutcome::kFailed), count(JunitOutcome::kError), seconds);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n <testsuite name=\"msprobe "
      "{1}\" {0}>\n{2}"
      " </testsuite>\n</testsuites>\n",
      totals, Escape(command, true), body);
}

}  // namespace msprobe::report
