// What kind of text each token of a model is, from the files that lie beside its weights: the table
// that response_anomaly judges by. Nothing of the folder is run, and no tokeniser is needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"

namespace msprobe::analysis::response_anomaly {

// The texts of a vocabulary by id, as a tokeniser would print each alone; empty where there is
// none.
struct Vocabulary {
  std::vector<std::string> texts;
  std::map<std::string, int64_t, std::less<>> special;  // the added ones: "<|im_end|>"
};

// From the text of a tokenizer.json, or of a vocab.json (text: id).
Result<Vocabulary> ParseVocabulary(std::string_view json);

// "english_latin", "cjk", ...; the words of the Python tool.
std::string TokenCategory(std::string_view text);

struct ModelConfigOptions {
  std::filesystem::path model;   // a folder with tokenizer.json
  std::string name;              // empty: of the folder
  std::filesystem::path output;  // gets configs/mtype_config.json, token2category/<name>_<n>.json
};

// Writes both files. Other models of a table that is there already stay in it.
Result<report::Document> WriteModelConfig(const ModelConfigOptions& options);

}  // namespace msprobe::analysis::response_anomaly
