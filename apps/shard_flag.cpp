#include "shard_flag.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/error.h"

namespace kvcal {

void take_shard(const std::string& text, SequenceOptions& options) {
  const char *at = text.data(), *end = at + text.size();
  int64_t index = 0, count = 0;
  const auto first = std::from_chars(at, end, index);
  const bool divided = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = divided ? std::from_chars(first.ptr + 1, end, count) : first;
  if (!divided || second.ec != std::errc() || second.ptr != end || index < 1 || index > count)
    fail("--shard is " + quoted(text) + ", expected i/n with i from 1 to n, such as 2/3");
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
