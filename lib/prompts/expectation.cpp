#include "prompts/expectation.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"

namespace kvcal {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The number whose digits begin at `at`: "1,234.5" is one; a dot or comma that no digit follows ends it.
double number_at(std::string_view text, size_t& at) {
  std::string digits;
  bool fraction = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const bool before_digit = at + 1 < text.size() && is_digit(text[at + 1]);
    if (is_digit(c) || (c == '.' && before_digit && !fraction))
      digits += c;
    else if (c != ',' || !before_digit || fraction)
      break;
    fraction = fraction || c == '.';
  }
  double value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::optional<double> last_number(std::string_view text) {
  std::optional<double> last;
  for (size_t at = 0; at < text.size();) {
    if (!is_digit(text[at])) {
      ++at;
      continue;
    }
    const bool negative = at > 0 && text[at - 1] == '-' && (at == 1 || !is_digit(text[at - 2]));
    const double value = number_at(text, at);
    last = negative ? -value : value;
  }
  return last;
}

constexpr double kSameNumber = 1e-9;  // relative

bool equal(double a, double b) { return std::fabs(a - b) <= kSameNumber * std::fmax(std::fabs(a), std::fabs(b)); }

}  // namespace

Expectation::Expectation(const Json& json) {
  if (json.is_string() && !json.get_ref<const std::string&>().empty()) {
    wanted_ = json.get<std::string>();
  } else if (json.is_number() && std::isfinite(json.get<double>())) {
    wanted_ = json.get<double>();
  } else if (json.is_object() && json.size() == 1 && json.contains("regex") && json["regex"].is_string()) {
    wanted_ = while_doing("expect", [&] { return std::make_shared<const Regex>(json["regex"].get<std::string>()); });
  } else {
    fail("expect is " + quoted(json.dump(-1, ' ', false, Json::error_handler_t::replace)) +
         R"(, expected a text, a number or {"regex": "..."})");
  }
}

bool Expectation::is_met_by(std::string_view answer) const {
  if (const auto* text = std::get_if<std::string>(&wanted_)) return answer.find(*text) != std::string_view::npos;
  if (const auto* number = std::get_if<double>(&wanted_)) {
    const std::optional<double> last = last_number(answer);
    return last && equal(*last, *number);
  }
  Allowance allowance(answer.size());
  return !std::get<std::shared_ptr<const Regex>>(wanted_)->find_all(answer, allowance).empty();
}

}  // namespace kvcal
