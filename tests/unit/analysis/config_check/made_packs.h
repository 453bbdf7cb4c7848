// Two packs made by hand.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/pack_writer.h"
#include "tests/unit/support/table_rows.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::config_check::test_support {

using msprobe::test_support::Rows;
using PackMembers = std::map<std::string, std::string>;  // content by name

class MadePacks {
 public:
  MadePacks(const PackMembers& bench, const PackMembers& cmp)
      : bench_(Make("bench", bench)), cmp_(Make("cmp", cmp)) {}

  PackPair pair() const { return {*bench_, *cmp_}; }

 private:
  std::unique_ptr<Pack> Make(const std::string& label, const PackMembers& members) const {
    const std::filesystem::path path = folder_ / (label + ".zip");
    Result<internal::PackWriter> writer = internal::PackWriter::Create(path);
    EXPECT_TRUE(writer.ok());
    for (const auto& [name, content] : members) {
      EXPECT_TRUE(writer->Add(name, content).ok()) << name;
    }
    EXPECT_TRUE(writer->Finish().ok());
    Result<std::unique_ptr<Pack>> pack = Pack::Open(path, label);
    EXPECT_TRUE(pack.ok()) << pack.status().message();
    return *std::move(pack);
  }

  msprobe::test_support::TemporaryFolder folder_;
  std::unique_ptr<Pack> bench_;
  std::unique_ptr<Pack> cmp_;
};

// The result of a check that must be able to read its packs.
inline CheckResult Done(Result<CheckResult> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : CheckResult();
}

// The first finding that says `what`, or an empty one.
inline Finding FindingThat(const CheckResult& result, std::string_view what) {
  for (const Finding& finding : result.findings) {
    if (finding.what.find(what) != std::string::npos) {
      return finding;
    }
  }
  ADD_FAILURE() << "no finding says: " << what;
  return {};
}

inline std::vector<std::string> Sentences(const CheckResult& result) {
  std::vector<std::string> sentences;
  for (const Finding& finding : result.findings) {
    sentences.push_back(finding.what);
  }
  return sentences;
}

}  // namespace msprobe::analysis::config_check::test_support
