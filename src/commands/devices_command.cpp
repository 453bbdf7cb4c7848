#include "src/commands/devices_command.h"

#include <array>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/strings.h"
#include "src/commands/print.h"
#include "src/device/device.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExplanation = R"(Kinds of devices
  host   this machine's own memory
  acl    Ascend devices, through CANN's libascendcl.so
  cuda   CUDA devices, through the driver's libcuda.so.1

The libraries are looked for when the command runs; nothing of a vendor is needed to install msprobe. A kind without its
library, driver or devices is listed with the reason, and so is what an older library cannot do.
MSPROBE_ACL_LIB and MSPROBE_CUDA_LIB name other files to load.

Examples:
  msprobe devices
  msprobe devices --format json | jq -r 'select(.State == "ready") | .Device'
)";

// A device, or a kind that has none here.
struct Row {
  std::string device;  // "acl:1"; "acl" without one
  device::DeviceInfo info;
  std::string runtime;
  std::string library;
  std::string state;
  std::vector<std::string> notes;
};

std::vector<Row> ListDevices() {
  std::vector<Row> rows;
  const device::Registry registry(device::Loading::kMayLoad);
  for (const std::unique_ptr<device::Runtime>& runtime : registry.all()) {
    const device::Inventory inventory = runtime->Describe();
    Row row;
    row.device = device::KindName(runtime->kind());
    row.runtime = inventory.version;
    row.library = inventory.library;
    if (!inventory.status.ok()) {
      row.state = "not available";
      row.notes.push_back(inventory.status.message());
      if (!inventory.status.hint().empty()) {
        row.notes.push_back(inventory.status.hint());
      }
      rows.push_back(row);
    }
    for (const device::DeviceInfo& info : inventory.devices) {
      Row device = row;
      device.device += fmt::format(":{}", info.index);
      device.info = info;
      device.state = info.trouble.empty() ? "ready" : "in trouble";
      device.notes = inventory.limitations;
      if (!info.trouble.empty()) {
        device.notes.insert(device.notes.begin(), info.trouble);
      }
      rows.push_back(std::move(device));
    }
  }
  return rows;
}

report::Cell TextOrEmpty(report::Table& table, const std::string& text) {
  return text.empty() ? report::Cell() : table.KeepText(text);
}

report::Table TableForPrograms(const std::vector<Row>& rows) {
  report::Table table("devices", {"Device", "Name", "Total_bytes", "Free_bytes", "Runtime",
                                  "Library", "State", "Note"});
  const auto bytes = [](uint64_t count) {
    return count == 0 ? report::Cell() : report::Cell::Integer(static_cast<int64_t>(count));
  };
  for (const Row& row : rows) {
    const std::array<report::Cell, 8> cells = {
        table.KeepText(row.device),      TextOrEmpty(table, row.info.name),
        bytes(row.info.total_bytes),     bytes(row.info.total_bytes == 0 ? 0 : row.info.free_bytes),
        TextOrEmpty(table, row.runtime), TextOrEmpty(table, row.library),
        table.KeepText(row.state),       TextOrEmpty(table, base::Join(row.notes, "; "))};
    table.AddRow(cells);
  }
  return table;
}

std::string TextForPeople(const std::vector<Row>& rows, const Context& context) {
  report::Table table("devices", {"Device", "Name", "Memory", "Free", "Runtime", "State"});
  const auto bytes = [](bool known, uint64_t count) {
    return known ? base::FormatBytes(count) : std::string();
  };
  std::string notes;
  for (const Row& row : rows) {
    const bool known = row.info.total_bytes > 0;
    const std::array<report::Cell, 6> cells = {
        table.KeepText(row.device),
        TextOrEmpty(table, row.info.name),
        TextOrEmpty(table, bytes(known, row.info.total_bytes)),
        TextOrEmpty(table, bytes(known, row.info.free_bytes)),
        TextOrEmpty(table, row.runtime),
        table.KeepText(row.state)};
    table.AddRow(cells);
    for (const std::string& note : row.notes) {
      notes += fmt::format("{}: {}\n", row.device, note);
    }
  }
  // Only a terminal has a right edge.
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  report::TerminalOptions options;
  options.width = terminal ? context.width : std::numeric_limits<size_t>::max();
  options.color = context.color && terminal;
  return report::TerminalTable(table, options) + notes;
}

}  // namespace

void DevicesCommand::Configure(CLI::App& app) {
  app.add_option("--format", format_, "table, csv, or json (one object per line)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"table", "csv", "json"}));
  app.footer(kExplanation);
}

Result<ExitCode> DevicesCommand::Run(const Context& context) {
  const std::vector<Row> rows = ListDevices();
  MSP_RETURN_IF_ERROR(Print(format_ == "table" ? TextForPeople(rows, context)
                            : format_ == "csv" ? report::CsvText(TableForPrograms(rows))
                                               : report::JsonLinesText(TableForPrograms(rows))));
  return ExitCode::kDone;
}

}  // namespace msprobe::commands
