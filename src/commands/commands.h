// Every command, made by the file that is named as it: CompareCommand by compare_command.cpp. Which
// commands there are is said in program.cpp, and below `monitor` in monitor_command.cpp.
#pragma once

#include <memory>
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
std::unique_ptr<Command> MakeDoctor();
std::unique_ptr<Command> MakeDump();
std::unique_ptr<Command> MakeFreeBenchmark();
std::unique_ptr<Command> MakeGradCompare();
std::unique_ptr<Command> MakeGraph(std::string_view name);
std::unique_ptr<Command> MakeHelp(Command& program);
std::unique_ptr<Command> MakeIsolate();
std::unique_ptr<Command> MakeMergeResult();
std::unique_ptr<Command> MakeMonitorAnalyse();
std::unique_ptr<Command> MakeMonitor();
std::unique_ptr<Command> MakeMonitorCsv2db();
std::unique_ptr<Command> MakeMonitorCsv2tb();
std::unique_ptr<Command> MakeMonitorDiff();
std::unique_ptr<Command> MakeMonitorReplay();
std::unique_ptr<Command> MakeMonitorReport();
std::unique_ptr<Command> MakeMonitorRun();
std::unique_ptr<Command> MakeMonitorTop();
std::unique_ptr<Command> MakeMsaccucmp();
std::unique_ptr<Command> MakeNanAnalyze(std::string_view name);
std::unique_ptr<Command> MakeOpGenerate();
std::unique_ptr<Command> MakeParse();
std::unique_ptr<Command> MakePerfCompare();
std::unique_ptr<Command> MakeRecheck();
std::unique_ptr<Command> MakeRepro();
std::unique_ptr<Command> MakeResponseAnomaly();
std::unique_ptr<Command> MakeRlCompare();
std::unique_ptr<Command> MakeRunOverflowCheck();
std::unique_ptr<Command> MakeRunUt(std::string_view name);
std::unique_ptr<Command> MakeServe();
std::unique_ptr<Command> MakeShow();

}  // namespace msprobe::commands
