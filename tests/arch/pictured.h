// Reads tests/arch/embeddings/<case>: a prompt with what the reference framework's vision tower made of its pictures,
// and what the framework's model makes of that. The weights are those of a case of tests/arch/golden.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "arch/golden.h"
#include "model/model_spec.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

struct Pictured {
  explicit Pictured(const std::string& name);
  ~Pictured();
  Pictured(const Pictured&) = delete;
  Pictured& operator=(const Pictured&) = delete;

  std::filesystem::path folder;
  Json json;
  SafetensorsFile golden;
  std::vector<int32_t> ids;
  /// The model's folder: that of the other case, or a scratch folder with its weights below a config of the wrapper.
  std::filesystem::path model;

  PromptTokens prompt(const std::string& id, const ModelSpec& spec) const;
  bool has(const std::string& name) const { return golden.find(name) != nullptr; }
  std::vector<float> tensor(const std::string& name) const;

 private:
  std::filesystem::path scratch_;
};

/// Names of all cases, sorted.
std::vector<std::string> pictured_cases();

}  // namespace kvcal
