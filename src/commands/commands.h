// Every command, made in the file that defines it, and the program that holds all of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/commands/command.h"

namespace msprobe::commands {

std::unique_ptr<Command> MakeApiPrecisionCompare();
std::unique_ptr<Command> MakeCkptCompare();
std::unique_ptr<Command> MakeCodeMapping();
std::unique_ptr<Command> MakeCompare();
std::unique_ptr<Command> MakeCompletion(Command& program);
std::unique_ptr<Command> MakeConfigCheck();
std::unique_ptr<Command> MakeData2db();
std::unique_ptr<Command> MakeDevices();
std::unique_ptr<Command> MakeDigest();
std::unique_ptr<Command> MakeDoctor();
std::unique_ptr<Command> MakeDump();
std::unique_ptr<Command> MakeFreeBenchmark();
std::unique_ptr<Command> MakeGenModelConfig();
std::unique_ptr<Command> MakeGradCompare();
std::unique_ptr<Command> MakeGraph(std::string_view name);
std::unique_ptr<Command> MakeBisect();
std::unique_ptr<Command> MakeHang();
std::unique_ptr<Command> MakeHelp(Command& program);
std::unique_ptr<Command> MakeInstallDeps();
std::unique_ptr<Command> MakeIsolate();
std::unique_ptr<Command> MakeCompileCheck();
std::unique_ptr<Command> MakeMergeResult();
std::unique_ptr<Command> MakeMonitor();
std::unique_ptr<Command> MakeMonitorRun();
std::unique_ptr<Command> MakeMonitorTop();
std::unique_ptr<Command> MakeMsaccucmp();
std::unique_ptr<Command> MakeNanAnalyze(std::string_view name);
std::unique_ptr<Command> MakeOfflineDump();
std::unique_ptr<Command> MakeOpGenerate();
std::unique_ptr<Command> MakeParse();
// `title`: how it was called, for its answer. It is a subcommand of both parse and msaccucmp.
std::unique_ptr<Command> MakeParseOverflow(std::string title);
std::unique_ptr<Command> MakePerfCompare();
std::unique_ptr<Command> MakeRecheck();
std::unique_ptr<Command> MakeRepro();
std::unique_ptr<Command> MakeResponseAnomaly();
std::unique_ptr<Command> MakeRlCompare();
std::unique_ptr<Command> MakeRunOverflowCheck();
std::unique_ptr<Command> MakeRunUt(std::string_view name);
std::unique_ptr<Command> MakeServe();
std::unique_ptr<Command> MakeShow();

// The program as the command that holds all others.
class Program final : public CommandGroup {
 public:
  Program();

  FlagTable flags() override;
  std::vector<Example> examples() const override;
  std::vector<Topic> topics() override;
  bool is_program() const override { return true; }
  const std::string& framework() const { return framework_; }
  bool wants_version() const { return version_; }

 private:
  struct Listed {
    std::string name;  // below the program: "monitor run"
    std::string_view stands_for;
  };
  struct Heading {
    std::string_view title;
    std::vector<Listed> commands;
  };

  // The commands that follow are listed under this heading.
  void Begin(std::string_view title) { headings_.push_back({title, {}}); }
  void Take(std::unique_ptr<Command> command, std::string_view stands_for = {});
  // A command of a group that is listed here, too.
  void Mention(std::string_view name) {
    headings_.back().commands.push_back({std::string(name), {}});
  }

  std::vector<Heading> headings_;
  std::string framework_;  // -f
  bool version_ = false;
};

// From argv to the exit code of the process.
int RunCommandLine(int argc, char** argv);

}  // namespace msprobe::commands
