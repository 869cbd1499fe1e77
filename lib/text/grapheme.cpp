#include "text/grapheme.h"

#include <utf8proc.h>

#include "text/utf8.h"

namespace kvcal {

void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& take) {
  size_t begin = 0;
  utf8proc_int32_t previous = 0, state = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const auto code = static_cast<utf8proc_int32_t>(next_code_point(text, i));
    if (at > 0 && utf8proc_grapheme_break_stateful(previous, code, &state)) {
      take(text.substr(begin, at - begin));
      begin = at;
    }
    previous = code;
  }
  if (begin < text.size()) take(text.substr(begin));
}

}  // namespace kvcal
