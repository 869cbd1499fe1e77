// A long text made of prompts, which may be cut and taken apart where a reader would.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "prompts/prompt_set.h"

namespace kvcal {

/// Raw text, or what the messages of a chat say, one in a line.
std::string plain_text_of(const PromptRecord& record);

/// Makes raw text of chats, for a model without a chat template; `notes` says so.
void make_chats_plain(PromptSet& set);

/// What is written in the prompts, by id: raw text, and what the messages of chats say. At most so many bytes of it.
/// Throws Error where nothing is.
std::string joined_text(const PromptSet& set, size_t max_bytes);

class Haystack {
 public:
  /// `text` once, or repeated to have at least so many bytes.
  Haystack(const std::string& text, size_t min_bytes);

  /// The text may be cut behind each of its words, or of its characters where a script has no spaces; words of more
  /// than 64 bytes anywhere.
  size_t n_cuts() const { return cuts_.size(); }

  /// Up to that cut.
  std::string_view until(size_t cut) const { return std::string_view(text_).substr(0, cuts_[cut]); }

  /// Byte of until(cut) that has so many percent of it before it: behind the sentence or line that ends nearest, or
  /// behind a word where none ends within a twentieth of the text. 0 and 100 are its very beginning and end.
  size_t place(size_t cut, int64_t percent) const;

 private:
  std::string text_;
  std::vector<size_t> cuts_, sentences_;  // bytes before each cut, and before those that end a sentence or line
};

}  // namespace kvcal
