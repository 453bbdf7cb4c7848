#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/result_folder.h"
#include "src/analysis/config_check/run.h"
#include "src/analysis/config_check/step_files.h"
#include "src/analysis/config_check/values.h"
#include "src/base/strings.h"
#include "src/json/value_text.h"

namespace msprobe::analysis::config_check {
namespace {

using json::ValueTree;

Result<CheckResult> RunCheck(Part part, const PackPair& packs, const CheckOptions& options) {
  switch (part) {
    case Part::kEnv:
      return CheckEnv(packs, options);
    case Part::kPip:
      return CheckPip(packs, options);
    case Part::kDataset:
      return CheckDataset(packs);
    case Part::kWeights:
      return CheckWeights(packs);
    case Part::kHyperparameters:
      return CheckHyperparameters(packs);
    case Part::kRandom:
      return CheckRandom(packs);
  }
  return InternalError("no such check");
}

void AddGap(const Pack& has, const Pack& lacks, std::string_view what,
            std::vector<std::string>& gaps) {
  gaps.push_back(fmt::format("{}: only in {}, not compared (missing in {})", what, has.label(),
                             lacks.label()));
}

// What the standard sheets leave out without a word.
std::vector<std::string> FindGaps(const PackPair& packs) {
  std::vector<std::string> gaps;
  const Pack* const sides[] = {&packs.bench, &packs.cmp};
  for (const Part part : kParts) {
    for (size_t side = 0; side < 2; ++side) {
      if (sides[side]->Has(part) && !sides[1 - side]->Has(part)) {
        AddGap(*sides[side], *sides[1 - side], PartName(part), gaps);
      }
    }
  }
  if (packs.bench.Has(Part::kHyperparameters) && packs.cmp.Has(Part::kHyperparameters)) {
    for (size_t side = 0; side < 2; ++side) {
      for (const std::string_view member : sides[side]->MembersBelow("hyperparameters/")) {
        if (!sides[1 - side]->HasMember(member)) {
          AddGap(*sides[side], *sides[1 - side], base::Printable(member), gaps);
        }
      }
    }
  }
  for (const Part part : {Part::kDataset, Part::kWeights}) {
    if (!packs.bench.Has(part) || !packs.cmp.Has(part)) {
      continue;
    }
    const std::string_view file = part == Part::kDataset ? "dataset.json" : "";
    const StepFiles files[] = {FindStepFiles(packs.bench, part, file),
                               FindStepFiles(packs.cmp, part, file)};
    for (size_t side = 0; side < 2; ++side) {
      const std::string missing = OnlyIn(files[side].files, files[1 - side].files);
      if (!missing.empty()) {
        AddGap(*sides[side], *sides[1 - side], fmt::format("{} of {}", PartName(part), missing),
               gaps);
      }
    }
  }
  return gaps;
}

// What stands beside the packages: CANN, drivers. The Python tool writes no such member.
Status CompareVersions(const PackPair& packs, std::vector<Finding>& findings) {
  if (!packs.bench.HasMember(kVersionsMember) || !packs.cmp.HasMember(kVersionsMember)) {
    return {};
  }
  MSP_ASSIGN_OR_RETURN(const ValueTree bench, packs.bench.ReadJsonObject(kVersionsMember));
  MSP_ASSIGN_OR_RETURN(const ValueTree cmp, packs.cmp.ReadJsonObject(kVersionsMember));
  const Members bench_members(bench, 0);
  const Members cmp_members(cmp, 0);
  Finding finding;
  finding.severity = Severity::kWarning;
  for (const Members::Member& member : bench_members) {
    const uint32_t other = cmp_members.Find(member.key);
    // Where the interpreter lies says nothing about what it computes.
    if (member.key != "python_path" && other != ValueTree::kNone &&
        !PythonEqual(bench, member.node, cmp, other)) {
      AddExample(finding, fmt::format("{}: {} / {}", Shown(member.key),
                                      Shown(json::PythonStr(bench, member.node)),
                                      Shown(json::PythonStr(cmp, other))));
    }
  }
  if (!finding.examples.empty()) {
    finding.what = "versions of the stack below the packages differ (not in the workbook)";
    finding.why = "kernels and their precision change from release to release";
    finding.fix = "install the same release on both sides, or keep the difference in mind";
    findings.push_back(std::move(finding));
  }
  return {};
}

// Wrong data or weights explain everything behind them; a version rarely explains anything.
size_t Importance(const Finding& finding) {
  if (!finding.part || finding.consequence) {
    return kParts.size();
  }
  switch (*finding.part) {
    case Part::kWeights:
      return 0;
    case Part::kDataset:
      return 1;
    case Part::kHyperparameters:
      return 2;
    case Part::kRandom:
      return 3;
    case Part::kEnv:
      return 4;
    case Part::kPip:
      return 5;
  }
  return kParts.size();
}

void AddForeign(const Pack& pack, std::vector<Finding>& findings) {
  if (pack.foreign_member_count() > 0) {
    Finding finding;
    finding.severity = Severity::kNote;
    finding.what = fmt::format("{}: {} member{} of the zip skipped: not part of a pack",
                               pack.label(), base::FormatCount(pack.foreign_member_count()),
                               pack.foreign_member_count() == 1 ? "" : "s");
    findings.push_back(std::move(finding));
  }
}

}  // namespace

Result<CompareRun> Run(const CompareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Pack> bench, Pack::Open(options.bench_pack, "bench"));
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Pack> cmp, Pack::Open(options.cmp_pack, "cmp"));
  MSP_RETURN_IF_ERROR(CheckResultFolder(options));
  const PackPair packs = {*bench, *cmp};
  CompareRun run;
  for (const Part part : kParts) {
    if (!bench->Has(part) || !cmp->Has(part)) {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(CheckResult check, RunCheck(part, packs, options.check));
    for (Finding& finding : check.findings) {
      run.findings.push_back(std::move(finding));
    }
    check.findings.clear();
    run.checks.push_back(std::move(check));
  }
  MSP_RETURN_IF_ERROR(CompareVersions(packs, run.findings));
  AddForeign(*bench, run.findings);
  AddForeign(*cmp, run.findings);
  std::stable_sort(
      run.findings.begin(), run.findings.end(), [](const Finding& a, const Finding& b) {
        return a.severity != b.severity ? a.severity < b.severity : Importance(a) < Importance(b);
      });
  run.gaps = FindGaps(packs);
  for (const CheckResult& check : run.checks) {
    if ((check.part == Part::kDataset || check.part == Part::kWeights) && !check.compared) {
      run.gaps.push_back(
          fmt::format("{}: nothing compared, no name of a step and rank is on both "
                      "sides",
                      PartName(check.part)));
    }
  }
  MSP_RETURN_IF_ERROR(WriteResultFolder(options, packs, run));
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

}  // namespace msprobe::analysis::config_check
