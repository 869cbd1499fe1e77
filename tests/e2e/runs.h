// Measuring runs for tests: prompts of random tokens, a scratch folder, and the stages of lib/calibrate without files
// of prompts.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/token_kind.h"
#include "calibrate/measure.h"
#include "device.h"

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

/// What the stages are given beside a model and token ids.
struct RunOptions : CalibrationOptions {
  RunSources sources{std::string(64, '0'), "", ""};
  std::string device = "auto";
  std::function<void(const RunStep&)> on_step{};
};

/// Keeps what it hears.
class Recorder : public CalibrationListener {
 public:
  explicit Recorder(std::function<void(const RunStep&)> on_step = {}) : on_step_(std::move(on_step)) {}
  void hear(Notice, const std::string& text) override { text_ += text + "\n"; }
  void step(const RunStep& step, int64_t) override {
    if (on_step_) on_step_(step);
  }
  bool heard(const std::string& part) const { return text_.find(part) != std::string::npos; }
  const std::string& text() const { return text_; }

 private:
  std::function<void(const RunStep&)> on_step_;
  std::string text_;
};

inline CalibrationPlan plan_of(OpenedModel& model, const std::vector<PromptTokens>& prompts,
                               const RunOptions& options) {
  return plan_calibration(model, prompts, options.sources, options,
                          [&] { return open_devices(options.device, options.precision, options.threads); });
}

inline Statistics measure(const fs::path& folder, const std::vector<PromptTokens>& prompts, const RunOptions& options,
                          CalibrationListener& listener) {
  OpenedModel model(folder);
  return measure(model, plan_of(model, prompts, options), options, listener).statistics;
}

inline Statistics measure(const fs::path& folder, const std::vector<PromptTokens>& prompts, const RunOptions& options) {
  Recorder listener;
  return measure(folder, prompts, options, listener);
}

}  // namespace kvcal
