// JSON from untrusted files: size and depth limits, no duplicate keys, errors that carry a path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvcal {

/// Keeps the order of keys, as templates, tokenizers and our own files need.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_bytes = size_t{256} << 20;
  int max_depth = 128;
  /// Values of any kind, so that "[],[],[],..." cannot turn megabytes of text into gigabytes of tree. The largest
  /// public tokenizer.json files hold about two million.
  size_t max_values = size_t{8} << 20;
  /// Accept the bare words NaN, Infinity, -Infinity (Python writes them; config.json files contain them) and
  /// {"__float__": "Infinity"} (transformers 5 writes that); both become non-finite numbers.
  bool allow_non_finite = false;
  /// Keep the digits of integers beyond 64 bits, where they are rounded to a double otherwise: for what is printed
  /// again. Such a value is_binary(), and large_integer_digits() gives the text. Above all doubles they are refused.
  bool keep_large_integers = false;
};

/// Parses one document. Throws Error with line and column for syntax errors, duplicate keys, depth and size limits.
/// Invalid UTF-8 is an error.
Json parse_json(std::string_view text, const JsonLimits& limits = {});

/// Reads and parses a file; errors begin with its path.
Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

/// `object[key]` as T; throws Error naming key, found type and value, expected type. `where` prefixes the key in
/// messages
/// ("text_config."). Integers must be integral and in range; booleans are not integers.
int64_t get_int(const Json& object, const char* key, std::string_view where = "");
double get_number(const Json& object, const char* key, std::string_view where = "");
std::string get_string(const Json& object, const char* key, std::string_view where = "");

/// As above, with a default for a key that is absent or null.
int64_t get_int_or(const Json& object, const char* key, int64_t fallback, std::string_view where = "");
double get_number_or(const Json& object, const char* key, double fallback, std::string_view where = "");
bool get_bool_or(const Json& object, const char* key, bool fallback, std::string_view where = "");
std::string get_string_or(const Json& object, const char* key, std::string_view fallback, std::string_view where = "");

/// The member when present and not null, else nullptr.
const Json* find_member(const Json& object, std::string_view key);

/// The digits, with a '-' in front of negative ones, of an integer that keep_large_integers kept.
std::string large_integer_digits(const Json& value);

/// Canonical form for hashing: keys sorted by bytes, no spaces, shortest round-trip numbers, whole numbers without a
/// fraction whether they were written 1, 1.0 or 1e0; NaN and infinities as strings.
std::string canonical_json(const Json& value);

}  // namespace kvcal
