// A made-up choice of keys, as pick_keys() gives one to attention.
#pragma once

#include "parity/op_fixture.h"

namespace kvcal::test {

/// A row's own key, every fifth or so of the others, and of some blocks of 64 none, the first one among them.
inline bool is_picked(int64_t row, int64_t picker, int64_t key) {
  return key == row || ((key / 64 + picker + row / 7) % 3 != 0 && (key * 7 + row * 3 + picker) % 5 == 0);
}

/// [tokens, pickers, words], with a word more than is needed.
inline Storage picked_words(int64_t tokens, int64_t pickers) {
  Storage words({tokens, pickers, tokens / 64 + 2}, DType::I64);
  auto* word = words.tensor().as<uint64_t>();
  const int64_t n_words = words.tensor().dim(2);
  std::fill_n(word, words.tensor().elements(), uint64_t{0});
  for (int64_t row = 0; row < tokens; ++row)
    for (int64_t picker = 0; picker < pickers; ++picker)
      for (int64_t key = 0; key <= row; ++key)
        if (is_picked(row, picker, key))
          word[(row * pickers + picker) * n_words + key / 64] |= uint64_t{1} << (key % 64);
  return words;
}

}  // namespace kvcal::test
