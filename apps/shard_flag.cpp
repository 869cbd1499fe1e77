#include "shard_flag.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/error.h"
#include "launcher.h"

namespace kvcal {
namespace {

[[noreturn]] void fail_shard(const std::string& text) {
  fail("--shard is " + quoted(text) +
       ", expected i/n with i from 1 to n, such as 2/3, or auto or auto/n, which ask the launcher");
}

/// 0: "auto" alone.
int64_t parts_of_auto(const std::string& text) {
  if (text == "auto") return 0;
  int64_t n = 0;
  const char *const first = text.data() + std::string("auto/").size(), *const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, n);
  if (error != std::errc() || end != last || n < 1) fail_shard(text);
  return n;
}

}  // namespace

SettledShard settled_shard(const std::string& text) {
  if (text != "auto" && !text.starts_with("auto/")) return {text};
  const int64_t n_parts = parts_of_auto(text);
  const JobPart part = while_doing("--shard " + text, [&] { return part_of_job(n_parts); });
  return {std::to_string(part.rank + 1) + "/" + std::to_string(part.size), part.on_host};
}

std::filesystem::path shard_file(const std::filesystem::path& file, std::string shard) {
  shard.replace(shard.find('/'), 1, "-of-");
  std::filesystem::path named = file;
  return named.replace_extension(shard + file.extension().string());
}

void take_shard(const std::string& text, SequenceOptions& options) {
  const char *at = text.data(), *end = at + text.size();
  int64_t index = 0, count = 0;
  const auto first = std::from_chars(at, end, index);
  const bool divided = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = divided ? std::from_chars(first.ptr + 1, end, count) : first;
  if (!divided || second.ec != std::errc() || second.ptr != end || index < 1 || index > count) fail_shard(text);
  options.shard = index - 1;
  options.n_shards = count;
}

std::string scale_option_given(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    if (option->count() > 0 && (option->get_group() == "Scales" || option->check_name("--out")))
      return "--" + option->get_lnames().front();
  return "";
}

}  // namespace kvcal
