#include "src/commands/run_ut_config.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::commands {
namespace {

namespace accuracy = analysis::accuracy;

constexpr int64_t kMostDecimals = 20;
constexpr int64_t kMostCheckerPort = 65535;

// The keys count only where is_online is true.
Status ReadOnline(const json::Config& config, const json::SettingsReader& settings, bool is_yaml,
                  std::optional<OnlineConfig>& online) {
  bool wanted = false;
  MSP_RETURN_IF_ERROR(settings.Bool("is_online", wanted));
  if (!wanted) {
    return {};
  }
  OnlineConfig& found = online.emplace();
  std::string folder;
  std::string tls_folder = "./";
  std::string secret_file;
  MSP_RETURN_IF_ERROR(settings.Text("nfs_path", folder));
  MSP_RETURN_IF_ERROR(settings.Text("tls_path", tls_folder));
  MSP_RETURN_IF_ERROR(settings.Bool("plaintext", found.endpoint.plaintext));
  MSP_RETURN_IF_ERROR(settings.Text("secret_path", secret_file));
  MSP_RETURN_IF_ERROR(settings.Text("host", found.endpoint.host));
  MSP_RETURN_IF_ERROR(settings.Int("port", -1, kMostCheckerPort, found.endpoint.port));
  if (is_yaml) {
    found.ranks = {0};
  }
  MSP_RETURN_IF_ERROR(settings.NumberSet("rank_list", found.ranks));
  found.endpoint.folder = folder;
  found.endpoint.tls_folder = tls_folder;
  found.endpoint.secret_file = secret_file;
  return online::CheckEndpoint(found.endpoint, online::Side::kChecker).AddContext(config.file);
}

Status ReadSection(const json::Config& config, const json::ConfigValue& object,
                   std::string_view section, bool is_yaml, accuracy::CheckOptions& options,
                   std::optional<OnlineConfig>& online) {
  std::vector<std::string> keys = {
      "white_list", "black_list", "error_data_path", "is_online", "nfs_path",   "host",
      "port",       "rank_list",  "tls_path",        "plaintext", "secret_path"};
  if (is_yaml) {
    keys.insert(keys.end(), {"precision", "quantization_api_list"});
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(object, keys));
  const json::SettingsReader settings(config, object, section);
  MSP_RETURN_IF_ERROR(settings.TextList("white_list", options.white_list));
  MSP_RETURN_IF_ERROR(settings.TextList("black_list", options.black_list));
  std::string folder = options.error_data_folder.string();
  MSP_RETURN_IF_ERROR(settings.Text("error_data_path", folder));
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return UsageError(fmt::format("{}: error_data_path names no folder: {}", config.file,
                                  base::Printable(folder)));
  }
  options.error_data_folder = folder;
  int64_t decimals = options.decimals;
  MSP_RETURN_IF_ERROR(settings.Int("precision", 0, kMostDecimals, decimals));
  options.decimals = static_cast<int>(decimals);
  if (settings.Find("quantization_api_list") != nullptr) {
    MSP_RETURN_IF_ERROR(settings.TextList("quantization_api_list", options.quantised.emplace()));
  }
  return ReadOnline(config, settings, is_yaml, online);
}

}  // namespace

Status ReadRunUtConfig(const std::filesystem::path& path, std::string_view section,
                       accuracy::CheckOptions& options, std::optional<OnlineConfig>& online) {
  const std::string ending = base::AsciiLower(path.extension().string());
  if (ending == ".yaml" || ending == ".yml") {
    MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(path));
    return ReadSection(config, config.root, "", true, options, online);
  }
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(path));
  if (const json::ConfigValue* object = config.root.Find(section); object != nullptr) {
    if (object->kind != json::ConfigKind::kObject) {
      return config.ErrorAt(*object, section, "must be an object");
    }
    return ReadSection(config, *object, section, false, options, online);
  }
  return {};
}

}  // namespace msprobe::commands
