#include "prompts/token_kinds.h"

#include <string.h>  // memmem

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/token_kind.h"
#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

// Rendering every beginning of a long chat takes a time that grows with its square: beyond this many bytes, of which
// each message counts as some, the rest is Other. It grows with the text, so that no set takes longer than its size.
constexpr size_t kMostBytes = size_t{32} << 20, kFewBytes = size_t{64} << 10;
constexpr size_t kRenderedPerByte = 32, kSearchedPerByte = 512, kEncodedPerByte = 8;  // by what each takes
constexpr size_t kBytesOfMessage = 64;

std::string text_member(const Json& message, const char* key) {
  const Json* member = find_member(message, key);
  return member && member->is_string() ? member->get<std::string>() : "";
}

TokenRole role_of(const std::string& name) {
  if (name == "system" || name == "developer") return TokenRole::System;
  if (name == "user") return TokenRole::User;
  if (name == "assistant") return TokenRole::Assistant;
  if (name == "tool" || name == "function" || name == "ipython") return TokenRole::Tool;
  return TokenRole::Other;
}

std::vector<uint8_t> kinds_of_messages(const Json& messages) {
  std::vector<uint8_t> kinds;
  size_t turn = 0;
  for (const Json& message : messages) {
    const TokenRole role = role_of(text_member(message, "role"));
    turn += role == TokenRole::User ? 1 : 0;
    kinds.push_back(token_kind(role, turn));
  }
  return kinds;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// std::string::find takes the product of both lengths for texts that nearly repeat, the C library their sum.
size_t find_in(std::string_view text, std::string_view sought) {
  if (sought.empty()) return 0;  // and may point nowhere
  const void* found = ::memmem(text.data(), text.size(), sought.data(), sought.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

/// To render beginnings of the messages with.
ChatInput without_messages(const ChatInput& input) {
  ChatInput rest;
  rest.tools = input.tools;
  rest.documents = input.documents;
  rest.extra = input.extra;
  rest.unix_seconds = input.unix_seconds;
  rest.picture = input.picture;
  return rest;
}

using End = std::optional<size_t>;  // none: not known

class MessageEnds {
 public:
  MessageEnds(const ChatInput& input, const std::string& text, const ChatTemplate& chat_template,
              const Tokenizer& tokenizer)
      : input_(input), text_(text), template_(chat_template), tokenizer_(tokenizer) {}

  /// Whether all that was asked for could be looked at.
  bool complete() const { return complete_; }

  /// Where each message ends in the text, in bytes, ascending.
  std::vector<End> in_text() {
    std::vector<End> ends;
    left_ = share(kRenderedPerByte, kMostBytes);
    for (size_t n = 1; n <= input_.messages.size(); ++n) ends.push_back(end_of_first(n));
    left_ = share(kSearchedPerByte, kSearchedPerByte * kMostBytes);
    add_by_content(ends);
    return ends;
  }

  /// The same in tokens.
  std::vector<End> in_tokens(const std::vector<End>& ends, const std::vector<int32_t>& ids) {
    std::vector<End> tokens;
    left_ = share(kEncodedPerByte, kMostBytes);
    size_t byte = 0, token = 0;
    for (const End& end : ends) {
      tokens.push_back(end ? token_at(*end, byte, token, ids) : std::nullopt);
      if (!tokens.back()) continue;
      byte = *end;
      token = *tokens.back();
    }
    return tokens;
  }

 private:
  size_t share(size_t per_byte, size_t most) const { return std::min(most, kFewBytes + per_byte * text_.size()); }

  bool spend(size_t bytes) {
    const bool enough = bytes <= left_;
    complete_ = complete_ && enough;
    left_ = enough ? left_ - bytes : 0;
    return enough;
  }

  /// Of the first n messages, rendered alone.
  End end_of_first(size_t n) {
    if (!spend(text_.size() * n / input_.messages.size() + kBytesOfMessage * n)) return std::nullopt;
    ChatInput part = rest_;
    part.messages = Json(input_.messages.begin(), input_.messages.begin() + static_cast<ptrdiff_t>(n));
    try {
      const std::string rendered = template_.render(part, tokenizer_.special_tokens(), steps_left_);
      // A message that comes out later, as a system prompt in that of the user, has not ended.
      const std::string content = text_member(input_.messages[n - 1], "content");
      if (text_.starts_with(rendered) && find_in(rendered, trimmed(content)) != std::string::npos)
        return rendered.size();
    } catch (const Error&) {  // a template may refuse a part of what it takes whole
      complete_ = complete_ && steps_left_ > 0;
    }
    return std::nullopt;
  }

  /// Between two known ends, by contents that are there once, in their order.
  void add_by_content(std::vector<End>& ends) {
    size_t from = 0;
    for (size_t first = 0, last = 0; first < ends.size(); first = last + 1) {
      for (last = first; last + 1 < ends.size() && !ends[last]; ++last) {
      }
      const size_t to = ends[last].value_or(text_.size());
      size_t at = from;
      for (size_t i = first; i < last; ++i) {
        ends[i] = end_of_content(text_member(input_.messages[i], "content"), from, at, to);
        at = ends[i].value_or(at);
      }
      from = to;
    }
  }

  /// Behind the content in [from, to) of the text, if it is there once and not before `at`.
  End end_of_content(const std::string& content, size_t from, size_t at, size_t to) {
    const std::string_view sought = trimmed(content), part = std::string_view(text_).substr(from, to - from);
    if (!spend(part.size())) return std::nullopt;
    const size_t found = find_in(part, sought);
    if (sought.empty() || found == std::string_view::npos || from + found < at) return std::nullopt;
    if (find_in(part.substr(found + 1), sought) != std::string_view::npos) return std::nullopt;
    return from + found + sought.size();
  }

  /// The token that begins at byte `end`, if one does; token `token` begins at `byte`.
  End token_at(size_t end, size_t byte, size_t token, const std::vector<int32_t>& ids) {
    const auto begins_with = [&](const std::vector<int32_t>& part, size_t at) {
      return part.size() <= ids.size() - at &&
             std::equal(part.begin(), part.end(), ids.begin() + static_cast<ptrdiff_t>(at));
    };
    if (end < byte) return std::nullopt;
    const auto encoded = [&](size_t from) {
      return tokenizer_.encode(std::string_view(text_).substr(from, end - from), false).ids;
    };
    // Usually text is cut there anyway; if not, only the whole beginning tells.
    if (!spend(end - byte)) return std::nullopt;
    if (const std::vector<int32_t> part = encoded(byte); begins_with(part, token)) return token + part.size();
    if (!spend(end)) return std::nullopt;
    if (const std::vector<int32_t> whole = encoded(0); begins_with(whole, 0) && whole.size() >= token)
      return whole.size();
    return std::nullopt;
  }

  const ChatInput& input_;
  const std::string& text_;
  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  const ChatInput rest_ = without_messages(input_);
  size_t steps_left_ = ChatTemplate::steps_of_a_rendering();  // of all beginnings together
  size_t left_ = 0;  // bytes that may still be looked at, by the way that is being tried
  bool complete_ = true;
};

}  // namespace

ChatTokenKinds chat_token_kinds(const ChatInput& input, const std::string& text, const std::vector<int32_t>& ids,
                                const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  std::vector<uint8_t> messages = kinds_of_messages(input.messages);
  MessageEnds ends(input, text, chat_template, tokenizer);
  std::vector<End> tokens = ends.in_tokens(ends.in_text(), ids);
  const bool complete = ends.complete();
  // What is behind the last message is the header of a reply.
  const size_t turn = messages.empty() ? 0 : turn_of_kind(messages.back());
  messages.push_back(input.add_generation_prompt ? token_kind(TokenRole::Assistant, turn)
                     : messages.empty()          ? token_kind(TokenRole::Other)
                                                 : messages.back());
  tokens.emplace_back(ids.size());

  std::vector<uint8_t> kinds(ids.size(), token_kind(TokenRole::Other));
  size_t from = 0;
  for (size_t first = 0, last = 0; first < messages.size(); first = last + 1) {
    for (last = first; !tokens[last]; ++last) {
    }
    const bool same = std::all_of(messages.begin() + static_cast<ptrdiff_t>(first),
                                  messages.begin() + static_cast<ptrdiff_t>(last) + 1,
                                  [&](uint8_t kind) { return kind == messages[first]; });
    if (same && *tokens[last] > from)
      std::fill(kinds.begin() + static_cast<ptrdiff_t>(from), kinds.begin() + static_cast<ptrdiff_t>(*tokens[last]),
                messages[first]);
    from = std::max(from, *tokens[last]);
  }
  return {std::move(kinds), complete};
}

}  // namespace kvcal
