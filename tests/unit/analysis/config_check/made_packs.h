// Two packs made by hand.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/collect.h"
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

// Texts of a thousand characters, made of the same hundred in another order.
inline std::vector<std::string> Shuffled(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> order(1000);
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int>(i % 100);
  }
  std::vector<std::string> texts(static_cast<size_t>(count));
  for (std::string& text : texts) {
    for (size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random() % (i + 1)]);
    }
    for (const int character : order) {
      text += "\xC4";
      text += static_cast<char>(0x80 + character % 64);
      text[text.size() - 2] = static_cast<char>(0xC4 + character / 64);
    }
  }
  return texts;
}

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
