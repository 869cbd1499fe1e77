#include "hub_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "checkpoint/config_file.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> folder_in_environment(const char* name) {
  const char* const value = std::getenv(name);
  if (!value || *value == '\0') return std::nullopt;
  const std::string text = value;
  const char* const home = std::getenv("HOME");
  return home && text.starts_with("~/") ? fs::path(home) / text.substr(2) : fs::path(text);
}

// In the order of huggingface_hub.
fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const auto folder = folder_in_environment(name)) return *folder;
  if (const auto folder = folder_in_environment("HF_HOME")) return *folder / "hub";
  if (const auto folder = folder_in_environment("XDG_CACHE_HOME")) return *folder / "huggingface" / "hub";
  return folder_in_environment("HOME").value_or("/") / ".cache" / "huggingface" / "hub";
}

bool is_part_of_id(std::string_view part) {
  const auto may_end = [](char c) { return c != '-' && c != '.'; };
  return !part.empty() && may_end(part.front()) && may_end(part.back()) && part.find("--") == part.npos &&
         part.find("..") == part.npos &&
         std::ranges::all_of(part, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_id(std::string_view text) {
  const size_t slash = text.find('/');
  constexpr size_t kLongest = 96;
  return slash != text.npos && text.size() <= kLongest && is_part_of_id(text.substr(0, slash)) &&
         is_part_of_id(text.substr(slash + 1));
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path folder_of(const fs::path& cache, const std::string& id) {
  const size_t slash = id.find('/');
  return cache / ("models--" + id.substr(0, slash) + "--" + id.substr(slash + 1));
}

// What the cache has, as ids.
std::vector<std::string> ids_in(const fs::path& cache) {
  std::vector<std::string> ids;
  std::error_code error;
  for (fs::directory_iterator at(cache, error), end; !error && at != end; at.increment(error)) {
    if (std::string id = hub_id(at->path()); !id.empty()) ids.push_back(std::move(id));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

[[noreturn]] void fail_absent(const fs::path& cache, const std::string& id) {
  const std::string nearest = nearest_match(id, ids_in(cache));
  fail(quoted(id) + ": no such folder, and the Hub cache " + quoted(cache.string()) + " has no model of this name; " +
       (nearest.empty() ? "" : "did you mean " + quoted(nearest) + "? ") + "'hf download " + id + "' gets it");
}

bool begins_in_any_case(std::string_view text, std::string_view start) {
  return std::ranges::equal(text.substr(0, start.size()), start, {}, [](unsigned char c) { return std::tolower(c); });
}

// "s3://bucket/model"
bool has_scheme(std::string_view text) {
  const size_t end = text.find("://");
  return end != text.npos && end > 0 &&
         std::ranges::all_of(text.substr(0, end), [](unsigned char c) { return std::isalnum(c) || c == '+'; });
}

// "hf:ORG/NAME", "https://huggingface.co/ORG/NAME/tree/main": what others take for an id. `expected`: besides a model.
void refuse_address(const std::string& given, const std::string& expected) {
  std::string_view rest = given;
  const auto removed = [&](std::initializer_list<std::string_view> starts) {
    for (const std::string_view start : starts)
      if (begins_in_any_case(rest, start)) return rest.remove_prefix(start.size()), true;
    return false;
  };
  bool is_of_hub = removed({"hf://", "hf:", "huggingface:"});
  removed({"https://", "http://"});
  is_of_hub |= removed({"huggingface.co/", "www.huggingface.co/", "hf.co/"});
  if (!is_of_hub && !has_scheme(given)) return;
  const size_t slash = rest.find('/');
  const size_t end = slash == rest.npos ? rest.npos : rest.find_first_of("/?#@:", slash + 1);
  const std::string id(rest.substr(0, end));
  if (is_of_hub && is_id(id)) fail(quoted(given) + ": give a model of the Hub by its id alone, " + id);
  fail(quoted(given) + ": is an address, expected " + expected +
       "a checkpoint folder, or the id ORG/NAME of a model in the Hub's cache");
}

bool is_path(const std::string& given) {
  std::error_code ignored;
  return fs::exists(given, ignored);
}

}  // namespace

std::string model_folder(const std::string& given) {
  if (is_path(given)) return given;
  refuse_address(given, "");
  if (!is_id(given)) return given;
  const fs::path cache = hub_cache(), folder = folder_of(cache, given);
  if (!is_folder(folder)) fail_absent(cache, given);
  const std::optional<fs::path> snapshot = hub_snapshot(folder);
  if (!snapshot)
    fail(quoted(given) + ": the Hub cache has nothing of it but " + quoted(folder.string()) +
         "; was the download complete? 'hf download " + given + "' completes it");
  return snapshot->string();
}

std::string file_or_model(const std::string& given) {
  if (!is_path(given)) refuse_address(given, "a file, ");
  return names_model(given) ? model_folder(given) : given;
}

bool names_model(const std::string& given) {
  return is_folder(given) || (!is_path(given) && is_id(given) && is_folder(folder_of(hub_cache(), given)));
}

}  // namespace kvcal
