// The small commands of `msprobe parse`, typed behind it or at its prompt: conversions of kernel
// dumps, arrays side by side, old call records.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/analysis/kernel_dump/array_compare.h"
#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/analysis/nonfinite/overflow.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

// The folder of results, under every name that the Python tools have for it. `since`: which of them
// brought the flag.
Flag ResultsFlag(std::filesystem::path& folder, std::string help, std::string default_text,
                 Since since = kPython811);

// cad: every dump of a folder, as arrays in <output>/<operator>/<time>/.
class ParseCadCommand final : public Command {
 public:
  std::string_view name() const override { return "cad"; }
  std::string_view summary() const override {
    return "Convert all kernel dumps of a folder, a folder per operator and call";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path dumps_;
  std::filesystem::path output_;
  std::filesystem::path vendor_tool_;
};

// cn: two arrays, element by element.
class ParseCnCommand final : public Command {
 public:
  std::string_view name() const override { return "cn"; }
  std::string_view summary() const override { return "Compare two .npy files element by element"; }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::kernel_dump::ArrayCompareOptions options_;
  bool save_ = false;
};

// dc: a dump or a folder of them, in a chosen layout.
class ParseDcCommand final : public Command {
 public:
  std::string_view name() const override { return "dc"; }
  std::string_view summary() const override {
    return "Convert a kernel dump, or a folder of them, to .npy in a chosen layout";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path dump_;
  analysis::kernel_dump::Options options_;
  std::filesystem::path vendor_tool_;
};

// overflow: the kernels that overflow records name.
class ParseOverflowCommand final : public Command {
 public:
  // `title`: how it was called, for its answer. It has a second name, in msaccucmp.
  explicit ParseOverflowCommand(std::string title = "parse overflow") : title_(std::move(title)) {}
  std::string_view name() const override { return "overflow"; }
  std::string_view summary() const override {
    return "Name the operator that overflowed first on a device, its call and its line of code";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  const std::string title_;
  analysis::nonfinite::OverflowOptions options_;
  AnswerFlags answer_;
};

// pk: calls of an old record.
class ParsePkCommand final : public Command {
 public:
  std::string_view name() const override { return "pk"; }
  std::string_view summary() const override {
    return "Show the stack and the tensors of a call in a .pkl record of old dumps";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path file_;
  std::string call_;
};

// pt: one array.
class ParsePtCommand final : public Command {
 public:
  std::string_view name() const override { return "pt"; }
  std::string_view summary() const override {
    return "Show a .npy file: shape, range, first elements; all of them go to a text file";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path file_;
};

// vc: two folders of converted dumps.
class ParseVcCommand final : public Command {
 public:
  std::string_view name() const override { return "vc"; }
  std::string_view summary() const override {
    return "Compare two folders of converted kernel dumps array by array";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path target_;
  std::filesystem::path golden_;
  std::filesystem::path output_;
  std::filesystem::path vendor_tool_;
};

// All of them, in the order of their names.
std::vector<std::unique_ptr<Command>> ParseTools();

}  // namespace msprobe::commands
