#include "src/analysis/kernel_dump/document.h"

#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::kernel_dump {
namespace {

using base::FormatCount;
using base::Plural;
using report::List;
using report::ListKind;
using report::Section;
using report::Standing;
using report::Tone;

constexpr size_t kBriefFailures = 20;

report::Verdict MakeVerdict(const Findings& findings) {
  report::Verdict verdict;
  verdict.unit = "arrays";
  verdict.number = static_cast<double>(findings.converted());
  const std::string done = fmt::format("{} of {}", Plural(findings.converted(), "array"),
                                       Plural(findings.files.size(), "file"));
  if (findings.failed_files() == 0) {
    verdict.word = "CONVERTED";
    verdict.text = fmt::format("CONVERTED: {}", done);
    verdict.tone = Tone::kGood;
    return verdict;
  }
  verdict.word = "INCOMPLETE";
  verdict.text = fmt::format("INCOMPLETE: {}; {} could not be converted whole", done,
                             Plural(findings.failed_files(), "file"));
  verdict.tone = Tone::kBad;
  verdict.standing = Standing::kIncomplete;
  return verdict;
}

Section Failures(const Findings& findings) {
  Section section{"Not converted", {}};
  List list{ListKind::kNamed, {}, {kBriefFailures}};
  for (const FileResult& file : findings.files) {
    const std::string name = base::Printable(file.path.string());
    if (!file.status.ok()) {
      list.items.push_back({name, base::Printable(file.status.message()), Tone::kBad});
    }
    for (const Converted& part : file.parts) {
      if (!part.status.ok()) {
        list.items.push_back({fmt::format("{}, {}", name, part.what),
                              base::Printable(part.status.message()), Tone::kBad});
      }
    }
  }
  section.blocks.emplace_back(std::move(list));
  return section;
}

// Which layouts there were, and what became of them.
Section Layouts(const Findings& findings) {
  std::map<std::string, uint64_t> counts;
  for (const FileResult& file : findings.files) {
    for (const Converted& part : file.parts) {
      if (part.status.ok() && !part.device_format.empty()) {
        ++counts[part.device_format == part.format
                     ? part.device_format
                     : fmt::format("{} to {}", part.device_format, part.format)];
      }
    }
  }
  Section section;
  if (!counts.empty()) {
    List list{ListKind::kAligned, {}};
    for (const auto& [layout, count] : counts) {
      list.items.push_back({layout, Plural(count, "tensor")});
    }
    section.blocks.emplace_back(std::move(list));
  }
  return section;
}

}  // namespace

report::Document MakeDocument(const Findings& findings, const std::filesystem::path& output) {
  report::Document document;
  document.command = "parse";
  document.verdict = MakeVerdict(findings);
  if (Section layouts = Layouts(findings); !layouts.blocks.empty()) {
    document.sections.push_back(std::move(layouts));
  }
  if (findings.failed_files() > 0) {
    document.sections.push_back(Failures(findings));
  }
  document.files.push_back({output / ""});  // a folder
  for (const std::filesystem::path& file : findings.written_beside) {
    document.files.push_back({file});
  }
  for (const FileResult& file : findings.files) {
    for (const std::string& warning : file.warnings) {
      document.warnings.push_back(
          base::Printable(fmt::format("{}: {}", file.path.string(), warning)));
    }
  }
  document.bytes = findings.bytes;
  document.deed = "converted";
  return document;
}

report::Document MakeDocument(const CodeMapping& mapping) {
  report::Document document;
  document.command = "code_mapping";
  document.verdict.unit = "rows";
  document.verdict.number = static_cast<double>(mapping.mapped);
  const std::string counts =
      fmt::format("{} of {} have lines of code ({} in the graph)", FormatCount(mapping.mapped),
                  Plural(mapping.rows, "row"), Plural(mapping.scopes, "scope"));
  if (mapping.mapped == 0) {
    document.verdict.word = "NOTHING MAPPED";
    document.verdict.tone = Tone::kBad;
    document.verdict.standing = Standing::kNothingCompared;
    document.next.emplace_back("Is the text of the graph of the same run as the dump?");
  } else {
    document.verdict.word = "MAPPED";
    document.verdict.tone = Tone::kGood;
  }
  document.verdict.text = fmt::format("{}: {}", document.verdict.word, counts);
  for (const std::filesystem::path& file : mapping.files) {
    document.files.push_back({file});
  }
  document.warnings = mapping.warnings;
  document.deed = "mapped";
  return document;
}

}  // namespace msprobe::analysis::kernel_dump
