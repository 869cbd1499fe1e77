#include "report/carried_files.h"

#include <algorithm>

#include "base/base64.h"
#include "base/error.h"
#include "base/letter_case.h"

namespace kvcal {
namespace {

constexpr std::string_view kBegin = "<a download=\"", kMiddle = "\" href=\"data:application/json;base64,", kEnd = "\">";

/// What stands before `end`, which is taken off, too.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  if (at == text.npos) fail("a file that the page carries is cut off");
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return before;
}

bool is_name(std::string_view name) {
  constexpr size_t kMostBytes = 64;
  return !name.empty() && name.size() <= kMostBytes &&
         std::ranges::all_of(name, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '-'; });
}

}  // namespace

std::string link_to(const CarriedFile& file) {
  return std::string(kBegin) + file.name + std::string(kMiddle) + base64_of(file.text) + std::string(kEnd) + file.name +
         "</a>";
}

std::vector<CarriedFile> carried_files(std::string_view page) {
  std::vector<CarriedFile> files;
  for (size_t at; (at = page.find(kBegin)) != page.npos;) {
    page.remove_prefix(at + kBegin.size());
    std::string name(take_until(page, kMiddle));
    if (!is_name(name)) fail("the page carries a file with a name that none has: " + quoted(name));
    std::string_view digits = take_until(page, kEnd);
    while (digits.ends_with('=')) digits.remove_suffix(1);
    std::optional<std::string> text = bytes_of_base64(digits);
    if (!text) fail(quoted(name) + ", which the page carries, is no base64");
    files.push_back({std::move(name), std::move(*text)});
  }
  return files;
}

}  // namespace kvcal
