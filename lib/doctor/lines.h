// The catalog of log lines, as data: one table per server. CONTRIBUTING says how to add a line.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "doctor/entry.h"

namespace kvcal {

/// A line is recognized by any of `needles`, parts of lines that have no arguments, with single spaces and a "|"
/// between them; and, where that is not special enough, by `also`, which must be in the same line. `unless` must not be
/// in it.
struct LogLine {
  std::string_view needles;
  Entry entry;
  std::string_view also = "";
  std::string_view unless = "";
  std::string_view cache = "";  // the type of the KV cache of which the line is proof
};

std::vector<std::string_view> needles_of(const LogLine& line);

std::span<const LogLine> vllm_lines();
std::span<const LogLine> vllm_load_lines();  // what stops or goes wrong while scales are loaded
std::span<const LogLine> sglang_lines();
std::span<const LogLine> other_lines();

}  // namespace kvcal
