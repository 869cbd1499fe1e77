// The one exception type of the library, and helpers that write good messages.
#pragma once

#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvcal {

/// Something outside the program is wrong: a file, an argument, the machine. The message is one line that names the
/// thing, what was found, what was expected and, where one is likely, the cause. Bugs of ours are asserts instead.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Error. Library code never prints, logs or exits.
[[noreturn]] inline void fail(const std::string& message) { throw Error(message); }

/// Runs f; an Error thrown inside gains "what: " in front. Each layer that knows more adds one phrase.
template <class F>
auto while_doing(const std::string& what, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& e) {
    throw Error(what + ": " + e.what());
  }
}

/// text with control characters and invalid UTF-8 escaped and, beyond `limit` bytes, its middle cut: one line, safe to
/// print whoever wrote it.
std::string printable(std::string_view text, size_t limit);

/// 'text' made printable, at most 160 bytes of it.
std::string quoted(std::string_view text);
// For std::string arguments: without these, argument-dependent lookup would find std::quoted of <iomanip> and prefer
// it.
inline std::string quoted(const std::string& text) { return quoted(std::string_view(text)); }
inline std::string quoted(std::string& text) { return quoted(std::string_view(text)); }

/// The candidate with the smallest edit distance to `name`, or "" when none is near enough to be a likely typing error.
std::string nearest_match(std::string_view name, std::span<const std::string> candidates);

/// "unknown KIND 'name'; did you mean 'x'? known: a, b, c": for every name that a user or a file chooses from a list.
[[noreturn]] void fail_unknown(std::string_view kind, std::string_view name, std::span<const std::string> known);

}  // namespace kvcal
