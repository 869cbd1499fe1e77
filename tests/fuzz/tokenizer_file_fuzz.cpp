// tokenizer.json and text: an Error, or ids that the vocabulary has and that decode. The first line of the input is the
// file, what follows is the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace kvcal;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const Tokenizer& tokenizer, std::string_view text) {
  const auto size = static_cast<int64_t>(tokenizer.vocab_size());
  for (const bool special : {false, true}) {
    const Tokenizer::Encoded encoded = tokenizer.encode(text, special);
    // A post-processor may name ids of its own; the model's ids are the tokenizer's.
    if (!special)
      for (const int32_t id : encoded.ids) require(id >= 0 && id < size && tokenizer.token_of(id).has_value());
    tokenizer.decode(encoded.ids, special);
    require(tokenizer.encode(text, special).ids == encoded.ids);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\n'), size);
  try {
    const Tokenizer tokenizer(parse_json(input.substr(0, end)));
    check(tokenizer, input.substr(std::min(end + 1, size)));
  } catch (const Error& e) {
    require(std::string_view(e.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
