#include "arch/pictured.h"

#include <unistd.h>

#include <fstream>

#include "prefill/encoder_file.h"

namespace kvcal {
Pictured::Pictured(const std::string& name)
    : folder(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/embeddings" / name),
      json(read_json_file(folder / "golden.json")),
      golden(folder / "golden.safetensors") {
  std::ifstream in(folder / "prompts.jsonl");
  std::string line;
  std::getline(in, line);
  ids = parse_json(line).at("input_ids").get<std::vector<int32_t>>();
  model = std::filesystem::path(KVCAL_SOURCE_DIR) / json.at("model").get<std::string>();
  if (!std::filesystem::exists(folder / "config.json")) return;
  scratch_ = std::filesystem::temp_directory_path() / ("kvcal-pictured-" + name + "-" + std::to_string(getpid()));
  std::filesystem::remove_all(scratch_);
  std::filesystem::create_directories(scratch_);
  std::filesystem::copy_file(folder / "config.json", scratch_ / "config.json");
  std::filesystem::create_symlink(std::filesystem::absolute(model) / "model.safetensors",
                                  scratch_ / "model.safetensors");
  model = scratch_;
}

Pictured::~Pictured() {
  std::error_code ignored;
  if (!scratch_.empty()) std::filesystem::remove_all(scratch_, ignored);
}

PromptTokens Pictured::prompt(const std::string& id, const ModelSpec& spec) const {
  PromptTokens p{id, ids, 1};
  p.encoder = read_encoder_file(folder / "picture.safetensors", ids, spec);
  return p;
}

std::vector<float> Pictured::tensor(const std::string& name) const { return golden_tensor(golden, name); }

std::vector<std::string> pictured_cases() { return cases_of("embeddings"); }

}  // namespace kvcal
