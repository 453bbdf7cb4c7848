// A document with everything that a document may hold.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "src/report/document.h"

namespace msprobe::report::test_support {

inline constexpr std::array<GateLevel, 4> kLevels = {
    {{"error", "a red row"},
     {"warning", "also a yellow row"},
     {"different", "values differ", /*includes_previous=*/false},
     {"drift", "also rounding", /*includes_previous=*/true, /*on_request=*/true}}};

inline Document MadeDocument() {
  Document document;
  document.command = "compare";
  document.verdict = {"DIFFERENT", "DIFFERENT: it starts with the computation of blocks.0.mlp.fc1",
                      3.0,         "rows",
                      Tone::kBad,  AnswerOutcome::kFindings};
  document.levels = OutcomesOf(kLevels);
  SetFound(document.levels, "different", true);
  List facts{ListKind::kFacts,
             {{"computation",
               "blocks.0.mlp.fc1 (Linear)",
               Tone::kPlain,
               0.5,
               SourceLine{"train.py", 13},
               {{"row", "Module.blocks.0.mlp.fc1.forward.0.output.0"}}}}};
  List numbered{ListKind::kNumbered,
                {{"env",
                  "one variable differs",
                  Tone::kBad,
                  {},
                  {},
                  {{"", "A: 1 / 2"}, {"why", "it matters"}}},
                 {"pip", "a package differs", Tone::kCaution}},
                {1, "and 1 more package"}};
  Table table("largest", {"Error", "Parameter"});
  for (int i = 0; i < 3; ++i) {
    const Cell cells[] = {Cell::Number(i == 0 ? std::numeric_limits<double>::quiet_NaN() : 0.5 / i),
                          table.KeepText("decoder.layers." + std::to_string(i) +
                                         ".self_attention.linear_proj.weight")};
    table.AddRow(cells, i == 0 ? Fill::kRed : Fill::kNone);
  }
  document.sections.push_back({"Where it starts", {}});
  document.sections.back().blocks.emplace_back(std::move(facts));
  document.sections.push_back({"What differs", {}});
  document.sections.back().blocks.emplace_back(std::move(numbered));
  document.sections.push_back({"Largest differences", {}});
  document.sections.back().blocks.emplace_back(DataTable{std::move(table), {2}});
  document.sections.back().blocks.emplace_back(Bars{
      "relative l2",
      {{"layer.0", 1}, {"layer.1", 0.5}, {"layer.2", std::numeric_limits<double>::infinity()}}});
  document.next = {
      Advice("text", {"Run this call alone on both machines with the dumped tensors, and check its "
                      "kernel."})};
  document.files = {{"out/compare_result.xlsx"}, {"out/summary.json", "summary"}};
  document.warnings = {"a file is truncated"};
  document.cases = {{"rank0", 1.5},
                    {"rank1", 0, CaseOutcome::kFailed, "different", "differ", "3 rows", "details"},
                    {"rank2", 0, CaseOutcome::kFailed, "drift", "drift", "rounding"}};
  document.seconds = 2;
  return document;
}

}  // namespace msprobe::report::test_support
