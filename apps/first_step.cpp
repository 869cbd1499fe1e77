#include "first_step.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "calibrate/opened_model.h"
#include "checkpoint/config_file.h"
#include "export/serve.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScales = "kv-cache-scales.json";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    entries.push_back(at->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Many programs have a config.json.
bool is_checkpoint(const fs::path& folder) {
  if (!is_file(folder / "config.json")) return false;
  try {
    const Json config = read_config(folder).config;
    return find_member(config, "architectures") || find_member(config, "model_type");
  } catch (const Error&) {
    return false;
  }
}

// The current folder, else those in it.
std::vector<fs::path> checkpoints() {
  if (is_checkpoint(".")) return {"."};
  std::vector<fs::path> found;
  for (const fs::path& entry : entries_of("."))
    if (is_checkpoint(entry)) found.push_back(entry);
  return found;
}

// " --prompts x.jsonl", if there is one such file and no other.
std::string prompts_option() {
  std::vector<fs::path> found;
  for (const fs::path& entry : entries_of("."))
    if (is_file(entry) && entry.extension() == ".jsonl") found.push_back(entry.filename());
  return found.size() == 1 ? " --prompts " + shell_word(found[0].string()) : "";
}

std::string description(const fs::path& folder, std::string& problem) {
  const std::string what = folder == "." ? "This folder" : quoted(folder.string());
  try {
    const OpenedModel model(folder);
    return what + " is a checkpoint, " + printable(model.spec().architecture, 100) + ": " +
           std::to_string(model.spec().caches.size()) + " of " + std::to_string(model.spec().layers.size()) +
           " layers have a KV cache.";
  } catch (const Error& e) {
    problem = e.what();
    return what + " has a config.json, but cannot be calibrated: " + problem;
  }
}

Lines commands(const fs::path& folder) {
  const std::string model = shell_word(folder.string());
  if (!is_file(kScales)) {
    const std::string prompts = prompts_option();
    Lines text("  kvcal calibrate " + model + prompts + " -o " + kScales);
    if (prompts.empty())
      text += Lines("") + Lines(
                              "That feeds a set of prompts that comes with kvcal; give yours with --prompts "
                              "chats.jsonl, a prompt a line.");
    return text;
  }
  std::error_code ignored;
  const fs::path out = folder == "." ? fs::path("..") / (fs::current_path(ignored).filename().string() + "-fp8kv")
                                     : fs::path(folder.string() + "-fp8kv");
  return Lines(std::string("  kvcal validate ") + kScales + " --model " + model) +
         Lines(std::string("  kvcal export ") + kScales + " --model " + model + " -o " + shell_word(out.string()));
}

}  // namespace

Lines first_step() {
  const std::vector<fs::path> found = checkpoints();
  if (found.empty()) return {};
  std::string problem;
  Lines text(description(found[0], problem));
  if (problem.empty()) text.add("Next:");
  text.add("");
  text += problem.empty() ? commands(found[0]) : Lines("  kvcal inspect " + shell_word(found[0].string()));
  if (found.size() > 1) text += Lines("") + Lines("Other checkpoints here: " + std::to_string(found.size() - 1) + ".");
  return text + Lines("") + Lines("'kvcal --help' lists all verbs.");
}

}  // namespace kvcal
