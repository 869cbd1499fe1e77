#include "source_date.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace kvcal {

std::optional<int64_t> source_date_epoch() {
  const char* text = std::getenv("SOURCE_DATE_EPOCH");
  if (!text) return std::nullopt;
  int64_t seconds = 0;
  const std::string_view value = text;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error != std::errc() || end != value.data() + value.size() || seconds < 0)
    fail("SOURCE_DATE_EPOCH is " + quoted(value) + ", expected seconds since 1970");
  return seconds;
}

}  // namespace kvcal
