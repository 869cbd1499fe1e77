#include "tokenizer/allowance.h"

#include <string>

#include "base/error.h"

namespace kvcal {
namespace {

// Real files make less than twice their size of long texts, in at most a dozen steps.
constexpr size_t kMiB = size_t{1} << 20;

}  // namespace

Allowance::Allowance(size_t input_bytes)
    : largest_(4 * kMiB + 8 * input_bytes),
      bytes_left_(64 * kMiB + 128 * input_bytes),
      time_left_(std::chrono::seconds(10 + input_bytes / kMiB)) {}

void Allowance::check_size(const char* step, size_t bytes) const {
  if (bytes > largest_ - kept_)
    fail(std::string(step) + " would make a text of more than " + std::to_string(largest_) + " bytes");
}

void Allowance::keep(const char* step, size_t bytes) {
  check_size(step, bytes);
  kept_ += bytes;
}

void Allowance::look_at(size_t bytes) {
  if (bytes > bytes_left_) fail("the steps of tokenizer.json go through this text too many times");
  bytes_left_ -= bytes;
}

void Allowance::spend(std::chrono::steady_clock::duration time) {
  if (time > time_left_) fail("the regular expressions of tokenizer.json take too long for this text");
  time_left_ -= time;
}

}  // namespace kvcal
