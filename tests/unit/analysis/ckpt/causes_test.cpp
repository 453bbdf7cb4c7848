#include "src/analysis/ckpt/causes.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::analysis::ckpt {
namespace {

namespace fs = std::filesystem;

TEST(SiblingsOf, AreFoldersOfOtherSteps) {
  const fs::path root = fs::path(::testing::TempDir()) / "siblings";
  fs::remove_all(root);
  for (const char* name : {"checkpoint-100", "checkpoint-200", "runs", "iter_0000005", "step9"}) {
    fs::create_directories(root / name);
  }
  EXPECT_THAT(SiblingsOf(root / "checkpoint-200"),
              ::testing::UnorderedElementsAre(root / "checkpoint-100", root / "iter_0000005",
                                              root / "step9"));
  EXPECT_THAT(SiblingsOf(root / "checkpoint-200/"), ::testing::SizeIs(3));
}

TEST(SiblingsOf, AreTheSameFileWhereAFileWasNamed) {
  const fs::path root = fs::path(::testing::TempDir()) / "sibling_files";
  fs::remove_all(root);
  for (const char* name : {"checkpoint-100", "checkpoint-200"}) {
    fs::create_directories(root / name);
  }
  std::ofstream(root / "checkpoint-100/model.pt") << "x";
  std::ofstream(root / "checkpoint-200/model.pt") << "x";
  EXPECT_THAT(SiblingsOf(root / "checkpoint-200/model.pt"),
              ::testing::ElementsAre(root / "checkpoint-100/model.pt"));
}

}  // namespace
}  // namespace msprobe::analysis::ckpt
