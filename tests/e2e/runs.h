// Whole calibration runs for tests: prompts, a scratch folder, and the parts of the program that `calibrate` puts
// together.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/token_kind.h"
#include "calibration.h"

namespace kvcal {

namespace fs = std::filesystem;

inline fs::path source(const std::string& path) { return fs::path(KVCAL_SOURCE_DIR) / path; }

class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "kvcal-e2e-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no scratch folder");
    path_ = name;
  }
  ~Scratch() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Random tokens, of a few kinds, in prompts with tags.
inline std::vector<PromptTokens> prompts_of(const std::vector<int64_t>& lengths, int64_t vocab) {
  std::vector<PromptTokens> prompts;
  uint32_t x = 1;
  for (size_t i = 0; i < lengths.size(); ++i) {
    PromptTokens p{"p" + std::to_string(i), {}, 1};
    for (int64_t t = 0; t < lengths[i]; ++t) {
      x = x * 1664525u + 1013904223u;
      p.ids.push_back(static_cast<int32_t>((x >> 8) % static_cast<uint32_t>(vocab)));
      p.kinds.push_back(
          token_kind(t % 100 < 37 ? TokenRole::User : TokenRole::Assistant, 1 + static_cast<size_t>(t / 100)));
    }
    p.tags = {i % 2 ? "odd" : "even"};
    if (i == 0) p.tags.emplace_back("first");
    prompts.push_back(p);
  }
  return prompts;
}

inline CalibrationOptions quiet() {
  CalibrationOptions options;
  options.quiet = true;
  options.prompts_sha256 = std::string(64, '0');
  return options;
}

inline Statistics measure(const fs::path& folder, std::vector<PromptTokens> prompts,
                          const CalibrationOptions& options) {
  OpenedModel model(folder);
  return calibrate(model, plan_calibration(model, prompts, options), options).statistics;
}

}  // namespace kvcal
