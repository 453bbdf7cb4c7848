// msprobe msaccucmp: the command lines of the vendor's comparison tool, msaccucmp.py, for scripts
// that call it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/kernel_dump/vector_document.h"
#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

// Exit codes of the vendor's tool for work that was done in part. What ends a command at once has
// the codes of this program, of which 2 (command line) and 3 (path) are the same there.
enum class VendorCode : int {
  kDone = 0,
  kNoDumpFile = 2,
  kPath = 3,  // also what cannot be written, for which the vendor has 19
  kBadDump = 11,
  kIndexOutOfBounds = 12,
  kBadFormat = 22,
  kBadShape = 23,
};
VendorCode VendorCodeOf(const Status& status);

// convert: dumps to arrays.
class MsaccucmpConvertCommand final : public Command {
 public:
  std::string_view name() const override { return "convert"; }
  std::string_view summary() const override {
    return "Convert kernel dumps and overflow records to .npy, .pt or .bin";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status FillOptions(const Context& context);

  std::vector<std::string> dumps_;
  std::filesystem::path argument_;
  std::string kind_ = "npy";
  std::vector<int64_t> shape_;
  std::string script_;
  std::string version_ = "2";
  analysis::kernel_dump::Options options_;
  AnswerFlags answer_;
};

// compare: two folders of dumps, or one operator of them.
class MsaccucmpCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "Compare kernel dumps operator by operator with ten measures, or one operator element "
           "by "
           "element";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status CheckFlags(const Context& context) const;
  Result<ExitCode> CompareOperator(const Context& context);

  std::filesystem::path argument_;
  std::filesystem::path reference_;
  analysis::kernel_dump::VectorOptions options_;
  analysis::kernel_dump::ElementReportOptions elements_;
  std::string measures_ = "all";
  std::optional<int64_t> input_;
  std::optional<int64_t> output_number_;
  std::string ignored_;
  AnswerFlags answer_;
};

// file_compare: two arrays.
class MsaccucmpFileCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "file_compare"; }
  std::string_view summary() const override { return "Compare two .npy files with eight measures"; }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path argument_;
  std::filesystem::path reference_;
  std::filesystem::path mine_;
  std::filesystem::path golden_;
  std::filesystem::path output_;
  AnswerFlags answer_;
};

class MsaccucmpCommand final : public Command {
 public:
  MsaccucmpCommand();
  std::string_view name() const override { return "msaccucmp"; }
  std::string_view summary() const override {
    return "Convert and compare kernel dumps with the command lines of msaccucmp.py";
  }
  std::vector<Example> examples() const override;
  std::vector<Command*> subcommands() const override;
  bool is_group() const override { return true; }
  Result<ExitCode> Run(const Context&) override { return ExitCode::kDone; }

 private:
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace msprobe::commands
