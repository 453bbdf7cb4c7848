// msprobe devices: which accelerators can be used here, and why others cannot.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/device/device.h"
#include "src/report/document.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::commands {
namespace {

constexpr const char* kDevicesNotes = R"(Kinds of devices
  host   this machine's own memory
  acl    Ascend devices, through CANN's libascendcl.so
  cuda   CUDA devices, through the driver's libcuda.so.1

Vendor libraries are loaded when the command runs and are not needed to install msprobe. If a library, driver or device is
missing, the reason is shown, and so are features that an older library lacks.
MSPROBE_ACL_LIB and MSPROBE_CUDA_LIB name other libraries to load.)";

// A device, or a kind that has none here.
struct DeviceRow {
  std::string device;  // "acl:1"; "acl" without one
  device::DeviceInfo info;
  std::string runtime;
  std::string library;
  std::string state;
  std::string note;
  std::string limitations;
};

struct Listing {
  std::vector<DeviceRow> rows;
  std::vector<std::string> remarks;  // what people should know about rows and kinds
};

std::string NoteOf(const device::Inventory& inventory) {
  std::vector<std::string> parts = {inventory.status.message()};
  if (!inventory.status.hint().empty()) {
    parts.push_back(inventory.status.hint());
  }
  return base::Join(parts, "; ");
}

Listing ListDevices() {
  Listing listing;
  const device::Registry registry(device::Loading::kMayLoad);
  for (const std::unique_ptr<device::Runtime>& runtime : registry.all()) {
    const device::Inventory inventory = runtime->Describe();
    const std::string kind(device::KindName(runtime->kind()));
    const auto add = [&](const std::string& name, const device::DeviceInfo& info, std::string state,
                         const std::string& note) {
      if (!note.empty()) {
        listing.remarks.push_back(fmt::format("{}: {}", name, note));
      }
      listing.rows.push_back({name, info, inventory.version, inventory.library, std::move(state),
                              note, base::Join(inventory.limitations, "; ")});
    };
    if (!inventory.status.ok()) {
      add(kind, {}, "not available", NoteOf(inventory));
      continue;
    }
    for (const device::DeviceInfo& info : inventory.devices) {
      add(fmt::format("{}:{}", kind, info.index), info, info.trouble.empty() ? "ready" : "refused",
          info.trouble);
    }
    for (const std::string& limitation : inventory.limitations) {
      listing.remarks.push_back(fmt::format("{}: {}", kind, limitation));
    }
  }
  return listing;
}

report::Cell TextOrEmpty(report::Table& table, const std::string& text) {
  return text.empty() ? report::Cell() : table.KeepText(text);
}

report::Table TableForPrograms(const std::vector<DeviceRow>& rows) {
  report::Table table("devices", {"Device", "Name", "Total_bytes", "Free_bytes", "Runtime",
                                  "Library", "State", "Note", "Limitations"});
  const auto bytes = [](uint64_t count) {
    return count == 0 ? report::Cell() : report::Cell::Integer(static_cast<int64_t>(count));
  };
  for (const DeviceRow& row : rows) {
    const std::array<report::Cell, 9> cells = {
        table.KeepText(row.device),
        TextOrEmpty(table, row.info.name),
        bytes(row.info.total_bytes),
        bytes(row.info.total_bytes == 0 ? 0 : row.info.free_bytes),
        TextOrEmpty(table, row.runtime),
        TextOrEmpty(table, row.library),
        table.KeepText(row.state),
        TextOrEmpty(table, row.note),
        TextOrEmpty(table, row.limitations)};
    table.AddRow(cells);
  }
  return table;
}

report::Verdict MakeVerdict(const std::vector<DeviceRow>& rows) {
  std::vector<std::string> ready;
  for (const DeviceRow& row : rows) {
    if (row.state == "ready") {
      ready.push_back(row.device);
    }
  }
  report::Verdict verdict;
  verdict.word = ready.empty() ? "NONE" : "READY";
  verdict.text =
      ready.empty() ? "NONE: no usable device" : fmt::format("READY: {}", base::Join(ready, ", "));
  verdict.tone = ready.empty() ? report::Tone::kCaution : report::Tone::kStrong;
  verdict.number = static_cast<double>(ready.size());
  verdict.unit = "devices";
  return verdict;
}

report::Document DocumentOfDevices(const Listing& listing) {
  report::Table table("devices", {"Device", "Name", "Memory", "Free", "Runtime", "State"});
  const auto bytes = [](bool known, uint64_t count) {
    return known ? base::FormatBytes(count) : std::string();
  };
  for (const DeviceRow& row : listing.rows) {
    const bool known = row.info.total_bytes > 0;
    const std::array<report::Cell, 6> cells = {
        table.KeepText(row.device),
        TextOrEmpty(table, row.info.name),
        TextOrEmpty(table, bytes(known, row.info.total_bytes)),
        TextOrEmpty(table, bytes(known, row.info.free_bytes)),
        TextOrEmpty(table, row.runtime),
        table.KeepText(row.state)};
    table.AddRow(cells);
  }
  report::Document document;
  document.command = "devices";
  document.verdict = MakeVerdict(listing.rows);
  report::Section& section = document.sections.emplace_back();
  section.blocks.emplace_back(report::DataTable{std::move(table)});
  report::List remarks{report::ListKind::kSentences, {}};
  for (const std::string& remark : listing.remarks) {
    remarks.items.push_back({"", remark});
  }
  document.Add("Notes", std::move(remarks));
  return document;
}

class DevicesCommand final : public Command {
 public:
  DevicesCommand()
      : Command("devices", "List the accelerators, and say why others cannot be used") {}

  FlagTable flags() override {
    return {
        Group::kOutput,
        Choice("--format", "NAME", &format_, {"table", "csv", "json"},
               "Output format; json: one object per line"),
        AnswerRows(answer_),
    };
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe devices", "all devices, with memory and state"},
        {"msprobe devices --format json | jq -r 'select(.State == \"ready\") | .Device'",
         "names of the usable devices"},
    };
  }

  std::string notes() const override { return kDevicesNotes; }

  Result<ExitCode> Run(const Context& context) override {
    const Listing listing = ListDevices();
    OwnForms own;
    own.despite_quiet = true;
    if (format_ != "table") {
      const report::Table table = TableForPrograms(listing.rows);
      own.instead = format_ == "csv" ? report::CsvText(table) : report::JsonLinesText(table);
    }
    return EmitReport(DocumentOfDevices(listing), answer_, context, own);
  }

 private:
  std::string format_ = "table";  // "table", "csv", "json"
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeDevices() { return std::make_unique<DevicesCommand>(); }

}  // namespace msprobe::commands
