#include "src/analysis/overflow/document.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::overflow {
namespace {

using base::FormatCount;
using base::Plural;
using base::Printable;
using report::Item;
using report::List;
using report::ListKind;
using report::Section;
using report::Standing;
using report::Tone;

constexpr size_t kBriefTensors = 12;
constexpr size_t kMostOthers = 3;  // calls that fit as well

std::string KernelName(const Overflow& overflow) {
  return overflow.op_name.empty()
             ? overflow.op_type
             : fmt::format("{} ({})", overflow.op_type, Printable(overflow.op_name));
}

std::string TaskText(const Overflow& overflow) {
  return fmt::format("stream {}, task {}", overflow.stream_id, overflow.task_id);
}

std::string BadText(const KernelTensor& tensor) {
  std::vector<std::string> parts;
  if (tensor.stats.nan_count > 0) {
    parts.push_back(fmt::format("{} NaN", FormatCount(tensor.stats.nan_count)));
  }
  if (tensor.stats.positive_inf_count > 0) {
    parts.push_back(fmt::format("{} +inf", FormatCount(tensor.stats.positive_inf_count)));
  }
  if (tensor.stats.negative_inf_count > 0) {
    parts.push_back(fmt::format("{} -inf", FormatCount(tensor.stats.negative_inf_count)));
  }
  return base::Join(parts, ", ");
}

// The first input or output that is not finite.
const KernelTensor* FirstBad(const Overflow& overflow, bool output) {
  const auto bad = std::find_if(
      overflow.tensors.begin(), overflow.tensors.end(), [&](const KernelTensor& tensor) {
        return tensor.status.ok() && tensor.is_output == output && tensor.bad_elements() > 0;
      });
  return bad == overflow.tensors.end() ? nullptr : &*bad;
}

std::string OriginText(const Overflow& overflow) {
  switch (overflow.origin) {
    case Origin::kMade: {
      const KernelTensor& output = *FirstBad(overflow, true);
      return fmt::format("here: its inputs are finite, {} holds {} among {}", output.name(),
                         BadText(output), Plural(output.stats.element_count, "element"));
    }
    case Origin::kPassedOn: {
      const KernelTensor& input = *FirstBad(overflow, false);
      return fmt::format("before: {} holds {} already", input.name(), BadText(input));
    }
    case Origin::kSaturated:
      return "here: its inputs are finite, and an output holds 65504, the largest float16";
    case Origin::kInside:
      return "inside: all its inputs and outputs are finite";
    case Origin::kUnknown:
      break;
  }
  return overflow.dump.empty() ? "not known: the kernel was not dumped"
                               : "not known: the dump of the kernel cannot be read";
}

std::string TimeText(uint64_t microseconds) {
  constexpr uint64_t kSecond = 1000000;
  constexpr uint64_t kYear10000 = 253402300800;
  const uint64_t seconds = microseconds / kSecond;
  std::tm time{};
  const auto since_1970 = static_cast<std::time_t>(seconds);
  if (seconds >= kYear10000 || ::gmtime_r(&since_1970, &time) == nullptr) {
    return std::to_string(microseconds);
  }
  return fmt::format("{}-{:02}-{:02} {:02}:{:02}:{:02}.{:06} UTC", time.tm_year + 1900,
                     time.tm_mon + 1, time.tm_mday, time.tm_hour, time.tm_min, time.tm_sec,
                     microseconds % kSecond);
}

std::string StatusBits(const Overflow& overflow) {
  std::vector<std::string> bits;
  for (const uint64_t status : overflow.status) {
    bits.push_back(fmt::format("0x{:x}", status));
  }
  return base::Join(bits, ", ");
}

std::string UnitText(const Overflow& overflow) {
  return fmt::format("{}{}, status {}", overflow.unit,
                     overflow.core_id ? fmt::format(" core {}", *overflow.core_id) : "",
                     StatusBits(overflow));
}

std::string TensorText(const KernelTensor& tensor) {
  if (!tensor.status.ok()) {
    return Printable(tensor.status.message());
  }
  const std::string range =
      tensor.stats.element_count == 0
          ? "empty"
          : fmt::format("max {}  min {}", kernel_dump::NumpyText(tensor.dtype, tensor.stats.max),
                        kernel_dump::NumpyText(tensor.dtype, tensor.stats.min));
  return fmt::format("{} {} {}  {}{}", DTypeName(tensor.dtype), tensor.format,
                     ShapeText(tensor.shape), range,
                     tensor.bad_elements() > 0 ? fmt::format("  ({})", BadText(tensor)) : "");
}

void AddCall(const Overflow& overflow, List& facts) {
  if (overflow.call) {
    const Call& call = *overflow.call;
    std::string text = fmt::format("{}: {} of the kernel's {} are its", Printable(call.name),
                                   call.found, Plural(call.tensors, "tensor"));
    if (!call.others.empty()) {
      std::vector<std::string> others = call.others;
      const bool more = others.size() > kMostOthers;
      others.resize(std::min(others.size(), kMostOthers));
      text +=
          fmt::format("; so are they of {}{}", Printable(base::Join(others, ", ")),
                      more ? fmt::format(" and {} more", call.others.size() - kMostOthers) : "");
    }
    facts.items.push_back({"call", std::move(text)});
    if (!call.code_line.empty()) {
      facts.items.push_back({"code", Printable(call.code_line)});
    }
  }
  if (!overflow.graph_scope.empty()) {
    facts.items.push_back({"scope", Printable(base::ReplaceAll(overflow.graph_scope, "\n", ", "))});
  }
  if (!overflow.graph_code.empty()) {
    Item code{"graph code", {}};
    for (const std::string_view line : base::Split(overflow.graph_code, '\n')) {
      (code.text.empty() ? code.text : code.details.emplace_back().text) = Printable(line);
    }
    facts.items.push_back(std::move(code));
  }
}

Section SectionOf(size_t number, const Overflow& overflow) {
  const bool known = !overflow.op_type.empty();
  Section section{fmt::format("{}. {}", number, known ? KernelName(overflow) : TaskText(overflow)),
                  {}};
  List facts{ListKind::kFacts, {}};
  facts.items.push_back(
      {"made", OriginText(overflow), overflow.origin == Origin::kMade ? Tone::kBad : Tone::kPlain});
  AddCall(overflow, facts);
  facts.items.push_back({"ran as", TaskText(overflow)});
  facts.items.push_back({"unit", UnitText(overflow)});
  facts.items.push_back({"noted", TimeText(overflow.timestamp)});
  facts.items.push_back({"record", Printable(overflow.record.string())});
  if (!overflow.dump.empty()) {
    facts.items.push_back({"kernel", Printable(overflow.dump.string())});
  }
  section.blocks.emplace_back(std::move(facts));
  List tensors{ListKind::kAligned, {}, {kBriefTensors}};
  for (const KernelTensor& tensor : overflow.tensors) {
    tensors.items.push_back(
        {tensor.name(), TensorText(tensor), tensor.bad_elements() > 0 ? Tone::kBad : Tone::kPlain});
  }
  section.blocks.emplace_back(std::move(tensors));
  if (overflow.call) {
    List stack{ListKind::kSentences, {}, {0}};
    for (const std::string& frame : overflow.call->stack) {
      stack.items.push_back({"", Printable(frame)});
    }
    section.blocks.emplace_back(std::move(stack));
  }
  return section;
}

// The one to look at first: what made bad values itself.
const Overflow* Leading(const Findings& findings) {
  const auto made = std::find_if(findings.overflows.begin(), findings.overflows.end(),
                                 [](const Overflow& overflow) {
                                   return overflow.overflowed() && overflow.origin == Origin::kMade;
                                 });
  if (made != findings.overflows.end()) {
    return &*made;
  }
  const auto first = std::find_if(findings.overflows.begin(), findings.overflows.end(),
                                  [](const Overflow& overflow) { return overflow.overflowed(); });
  return first == findings.overflows.end() ? nullptr : &*first;
}

// A case per record; it fails where the operator overflowed.
std::vector<report::TestCase> CasesOf(const Findings& findings) {
  std::vector<report::TestCase> cases;
  for (const Overflow& overflow : findings.overflows) {
    report::TestCase& test = cases.emplace_back();
    test.name = Printable(overflow.record.filename().string());
    if (overflow.overflowed()) {
      test.outcome = report::CaseOutcome::kFailed;
      test.level = "overflow";
      test.type = overflow.unit;
      test.message = Sentence(overflow);
      test.details = OriginText(overflow);
    }
  }
  for (const auto& [path, status] : findings.unreadable) {
    report::TestCase& test = cases.emplace_back();
    test.name = Printable(path.filename().string());
    test.outcome = report::CaseOutcome::kError;
    test.message = Printable(status.message());
  }
  return cases;
}

report::Verdict MakeVerdict(const Findings& findings) {
  report::Verdict verdict;
  const auto overflowed =
      std::count_if(findings.overflows.begin(), findings.overflows.end(),
                    [](const Overflow& overflow) { return overflow.overflowed(); });
  verdict.number = static_cast<double>(overflowed);
  verdict.unit = "records";
  const std::string seen = fmt::format("{} of {}", FormatCount(findings.overflows.size()),
                                       Plural(findings.records, "record"));
  if (const Overflow* leading = Leading(findings)) {
    verdict.word = "OVERFLOW";
    verdict.text = fmt::format("OVERFLOW: {}", Sentence(*leading));
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kFindings;
  } else if (findings.overflows.empty()) {
    verdict.word = "UNREADABLE";
    verdict.text = fmt::format("UNREADABLE: none of {} can be read",
                               Plural(findings.unreadable.size(), "record"));
    verdict.tone = Tone::kBad;
  } else {
    verdict.word = "NO OVERFLOW";
    verdict.text = fmt::format("NO OVERFLOW: {} read, none has a status", seen);
    verdict.tone = Tone::kGood;
  }
  if (!findings.unreadable.empty()) {
    verdict.standing = Standing::kIncomplete;
  }
  return verdict;
}

std::string NextStep(const Findings& findings) {
  const Overflow* leading = Leading(findings);
  if (leading == nullptr) {
    return "";
  }
  if (leading->dump.empty()) {
    return "Dump the kernels as well (level L2, or dump_mode all) to see which one it was and what "
           "it was given.";
  }
  if (leading->origin == Origin::kPassedOn) {
    return "Its inputs were bad already: look at what ran before it, with nan_analyze on a dump of "
           "the calls, or at earlier records with -n 0.";
  }
  if (findings.calls.empty() && leading->graph_code.empty()) {
    return "To get the call and the line of code, dump the calls of the same step (level L1 or "
           "mix) "
           "and name that dump: --calls DUMP; of a MindSpore graph its text: --ir FILE.";
  }
  return "Look at the range of its inputs: scale them down before this call, or compute it in a "
         "wider dtype.";
}

}  // namespace

std::string Sentence(const Overflow& overflow) {
  std::string text = overflow.op_type.empty()
                         ? fmt::format("a kernel that was not dumped, {}", TaskText(overflow))
                         : fmt::format("{}, {}", KernelName(overflow), TaskText(overflow));
  if (overflow.call) {
    text += fmt::format(", in {}{}", Printable(overflow.call->name),
                        overflow.call->code_line.empty()
                            ? ""
                            : fmt::format(" ({})", Printable(overflow.call->code_line)));
  }
  return text;
}

report::Document MakeDocument(const Findings& findings) {
  report::Document document;
  document.command = "parse overflow";
  document.verdict = MakeVerdict(findings);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "overflow", Leading(findings) != nullptr);
  for (size_t i = 0; i < findings.overflows.size(); ++i) {
    document.sections.push_back(SectionOf(i + 1, findings.overflows[i]));
  }
  if (findings.records > findings.overflows.size() + findings.unreadable.size()) {
    const uint64_t more = findings.records - findings.overflows.size() - findings.unreadable.size();
    document.sections.push_back({"Also", {}});
    document.sections.back().blocks.emplace_back(
        report::Text{fmt::format("{} later; -n 0 looks at all", Plural(more, "record"))});
  }
  document.cases = CasesOf(findings);
  if (std::string next = NextStep(findings); !next.empty()) {
    document.next.push_back(std::move(next));
  }
  if (!findings.summary.empty()) {
    document.files.push_back({findings.summary});
  }
  document.warnings = findings.warnings;
  for (const auto& [path, status] : findings.unreadable) {
    document.warnings.push_back(fmt::format("{}: {}", path.string(), status.message()));
  }
  return document;
}

}  // namespace msprobe::analysis::overflow
