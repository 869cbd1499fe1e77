// The shapes that records of public sets and of request logs have: a table in record_shapes.cpp.
//
// A chat is a list of turns, some lists are of texts, or it is what a user says in a text or two; behind it may come a
// reply, before it a system message. "messages", "conversations", "conversation" may be texts of JSON. Beside "text",
// "prompt" or "input_ids" only those, a "prompt" of turns, and "chosen" are looked at. A turn is {"role", "content",
// ...},
// {"from", "value"}, a mixture of both, {"user": "...", "assistant": "..."}, or Gemini's {"role", "parts"}.
#pragma once

#include <optional>

#include "base/json.h"

namespace kvcal {

/// The record itself, or the request in it where it has no content of its own.
const Json& request_in(const Json& record);

/// What the record of a chat says, as {"role", "content", ...} with the roles that templates know; nothing where it is
/// no chat. Throws Error for a turn that cannot be read.
std::optional<Json> chat_in(const Json& record);

/// Its "tools", which some sets write as a text of JSON; null for none.
Json tools_in(const Json& record);

}  // namespace kvcal
