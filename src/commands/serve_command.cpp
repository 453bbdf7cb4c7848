// msprobe serve: graphs and pages of a folder for browsers, over HTTP.
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/serve/http_server.h"
#include "src/serve/site.h"

namespace msprobe::commands {
namespace {

constexpr double kMostPort = 65535;

constexpr const char* kServeNotes =
    R"(The address that is printed holds a secret that is new with every start; whoever knows it can read the graphs (.vis.db) and pages
(.html) of the folder and of those below it, and nothing else. Nothing is written. Ctrl-C or SIGTERM ends it.

From another computer use a tunnel, then open the printed address there:
  ssh -L 8080:127.0.0.1:8080 HOST msprobe serve results --port 8080)";

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

// The host in an address that people open.
std::string NameInAddress(const std::string& host) {
  std::array<char, 256> own{};
  if ((host == "0.0.0.0" || host == "::") && ::gethostname(own.data(), own.size() - 1) == 0) {
    return own.data();
  }
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

class ServeCommand final : public Command {
 public:
  ServeCommand()
      : Command("serve",
                "Show the graphs and pages of a folder in a browser, without copying them") {}

  std::vector<Positional> positionals() override {
    return {Argument("DIR", &folder_,
                     "The folder with results of msprobe graph and compare; folders below it count",
                     kRequired)};
  }

  FlagTable flags() override {
    return {
        Number("--port", "N", &port_, "Port to listen on; 0: any free one", Between(0, kMostPort)),
        Text("--host", "ADDRESS", &host_,
             "Address to listen on; any other address than this computer's own lets other "
             "machines connect, without encryption"),
    };
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe serve results", "print an address for the browser of this computer"},
        {"msprobe serve results --port 8080", "the same on a port that is known, for a tunnel"},
    };
  }

  std::string notes() const override { return kServeNotes; }

  Result<ExitCode> Run(const Context& /*context*/) override {
    MSP_ASSIGN_OR_RETURN(serve::Folder folder, serve::Folder::Open(folder_));
    const std::string token = serve::NewToken();
    serve::Site site(std::move(folder), token, host_);
    MSP_RETURN_IF_ERROR(serve::Serve(
        host_, static_cast<uint16_t>(port_),
        [&](uint16_t port) { return PrintAddress(token, port); },
        [&](const serve::Request& request) { return site.Answer(request); }));
    return ExitCode::kDone;
  }

 private:
  Status PrintAddress(const std::string& token, uint16_t port) const {
    if (!IsLoopback(host_)) {
      base::LogWarning(fmt::format(
          "--host {}: other computers can connect, and what they read is not encrypted; whoever "
          "sees the address can read the results. A tunnel (ssh -L) is safer",
          host_));
    }
    // The address alone is the standard output, for programs.
    base::LogInfo(fmt::format("serving {} until Ctrl-C", base::Printable(folder_.string())));
    MSP_RETURN_IF_ERROR(
        Print(fmt::format("http://{}:{}/{}/\n", NameInAddress(host_), port, token)));
    // A process that started this in the background waits for the address.
    return std::fflush(stdout) == 0 ? OkStatus()
                                    : IoError("cannot write the address to the standard output");
  }

  std::filesystem::path folder_;
  uint64_t port_ = 0;
  std::string host_ = "127.0.0.1";
};

}  // namespace

std::unique_ptr<Command> MakeServe() { return std::make_unique<ServeCommand>(); }

}  // namespace msprobe::commands
