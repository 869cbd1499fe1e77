// strftime as Python calls it: the C library's, in the C locale, for a time without zone and without microseconds.

#include <algorithm>
#include <ctime>

#include "jinja/runtime.h"

namespace kvcal::jinja {
namespace {

constexpr size_t kDirectiveSteps = 2000;  // what the C library takes for one

std::tm broken_down(int64_t unix_seconds) {
  constexpr int64_t kEndOf9999 = 253402300799;
  const auto when = static_cast<std::time_t>(std::clamp<int64_t>(unix_seconds, 0, kEndOf9999));
  std::tm date{};
  if (!gmtime_r(&when, &date)) fail("strftime_now: no such time");
  return date;
}

// The end of the directive that begins at f[i], a '%': flags, width, E or O, and one character.
size_t directive_end(std::string_view f, size_t i) {
  const auto skip = [&](std::string_view set) {
    while (i < f.size() && set.find(f[i]) != std::string_view::npos) ++i;
  };
  ++i;
  skip("_-0^#+");
  const size_t digits = i;
  skip("0123456789");
  if (i - digits > 3) fail("strftime directive with a width of " + std::to_string(i - digits) + " digits, at most 3");
  if (i < f.size() && (f[i] == 'E' || f[i] == 'O')) ++i;
  return std::min(i + 1, f.size());
}

std::string one_directive(const std::string& directive, const std::tm& date) {
  char buffer[4096];
  // The x tells nothing printed from too little room.
  const size_t n = std::strftime(buffer, sizeof buffer, ("x" + directive).c_str(), &date);
  if (n == 0) fail("strftime directive " + quoted(directive) + " is not supported");
  return std::string(buffer + 1, n - 1);
}

}  // namespace

void append_time(PaidText& out, std::string_view f, int64_t unix_seconds) {
  const std::tm date = broken_down(unix_seconds);
  for (size_t i = 0; i < f.size();) {
    if (f[i] != '%') {
      out += f[i++];
      continue;
    }
    out.budget().step(kDirectiveSteps);
    const size_t end = directive_end(f, i);
    const std::string directive(f.substr(i, end - i));
    i = end;
    if (directive == "%f")
      out += "000000";
    else if (directive == "%s")  // the C library's would read the zone of this machine
      out += std::to_string(unix_seconds);
    else if (directive != "%z" && directive != "%Z")
      out += one_directive(directive, date);
  }
}

}  // namespace kvcal::jinja
