// What a run broke of what holds in every correct training: the rows of laws.csv of its ranks, and
// what their files tell when they are joined.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"

namespace msprobe::analysis::monitor {

struct BrokenLaw {
  int64_t step = 0;
  std::string law;
  std::string name;  // of the parameter; empty: of none
  std::string ranks;
  std::string value;
  std::string expected;
  std::string ratio;
  std::string text;

  // "law replica is broken in step 3 on rank 1, layers.0.weight: ..."
  std::string Sentence() const;
};

// The rows of the laws.csv of one rank; empty where there is none.
std::vector<BrokenLaw> ReadLawsOfRank(const std::filesystem::path& folder);

struct LawsOfRun {
  bool were_checked = false;                             // some rank has laws.csv
  std::vector<BrokenLaw> broken;                         // the first is nearest to the cause
  std::map<std::string, uint64_t, std::less<>> checked;  // by law, all ranks together
  std::vector<std::string> warnings;
};

// Joins the files of the ranks below `root`; what they break together is added to the laws.csv of
// the first rank that it concerns, once. `root` may be the folder of the alerts inside of it.
Result<LawsOfRun> ReadLaws(const std::filesystem::path& root);

// A section for an answer: the first broken laws, and how often each was checked.
void AddLaws(const LawsOfRun& laws, size_t most, report::Document& document);

}  // namespace msprobe::analysis::monitor
