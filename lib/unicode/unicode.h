// Character properties and normal forms, as the reference tokenizer library sees them.
//
// That library takes its tables from several crates of different ages: its normal forms know Unicode 9 (plus nothing
// newer), its punctuation an even older one, its case mapping Unicode 16. utf8proc knows Unicode 15. The differences
// are listed here code point by code point, found by asking the reference about every code point.
#pragma once

#include <string>
#include <string_view>

namespace kvcal {

enum class NormalForm { NFC, NFD, NFKC, NFKD };

/// `text` in the given normal form; linear in its length but for sorting inside runs of combining marks.
std::string to_normal_form(std::string_view text, NormalForm form);

/// Code point by code point, without the context rule for a final sigma.
std::string to_lower_per_code_point(std::string_view text);

bool is_white_space(char32_t c);      // property White_Space
bool is_numeric(char32_t c);          // general category N
bool is_punctuation(char32_t c);      // ASCII punctuation and the reference's old category P
bool is_combining_mark(char32_t c);   // the reference's old category M
bool is_nonspacing_mark(char32_t c);  // the reference's old category Mn
bool is_control(char32_t c);          // the reference's old categories Cc, Cf, Co
bool is_word(char32_t c);             // \w of the reference's own regular expressions

/// Bytes of White_Space at the beginning and at the end of valid UTF-8.
size_t leading_white_space(std::string_view text);
size_t trailing_white_space(std::string_view text);

}  // namespace kvcal
