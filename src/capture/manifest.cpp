#include "src/capture/manifest.h"

#include <string>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/capture/run_identity.h"
#include "src/capture/step_folder.h"
#include "src/json/document.h"

namespace msprobe::capture {

Status WriteManifest(const base::Path& folder, const Settings& settings, const Manifest& manifest) {
  using Json = nlohmann::ordered_json;
  const Json document = {{"complete", manifest.complete},
                         {"version", MSPROBE_VERSION},
                         {"task", TaskName(settings.task)},
                         {"level", LevelName(settings.level)},
                         {"framework", FrameworkName(settings.framework)},
                         {"step", manifest.step},
                         {"rank", manifest.rank ? Json(*manifest.rank) : Json()},
                         {"process_id", ::getpid()},
                         {"process", ProcessIdentity()},
                         {"run", RunIdentity()},
                         {"entries", manifest.entries},
                         {"tensors", manifest.tensors},
                         {"tensor_files", manifest.files.files},
                         {"tensor_bytes", manifest.files.bytes},
                         {"written_bytes", manifest.files.written_bytes},
                         {"deduplicated_files", manifest.files.deduplicated},
                         {"lost_files", manifest.files.lost},
                         {"lost_record_bytes", manifest.lost_record_bytes},
                         {"errors", manifest.errors},
                         {"engine_seconds", manifest.engine_seconds},
                         {"wall_seconds", manifest.wall_seconds}};
  const std::string out = json::DocumentText(document, 1, json::Writer::NonFinite::kText) + '\n';
  return base::WriteFileAtomically(folder / kManifestName, out, base::Existing::kReplace);
}

}  // namespace msprobe::capture
