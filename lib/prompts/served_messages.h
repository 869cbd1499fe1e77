// Messages as servers hand them to a chat template.
#pragma once

#include <string>

#include "prompts/chat_template.h"

namespace kvcal {

/// As vLLM does (vllm/renderers/chat_utils):
/// - parts of text are joined with line breaks where the template takes no parts, and in the messages of tools; SGLang
///   joins with spaces. A text becomes one part where the template takes nothing else;
/// - "arguments" of tool calls that are a text of JSON, as requests have them, are given as what it stands for; none,
///   or an empty text, as an empty object;
/// - an empty list of tool calls is left out.
/// Throws Error for parts that the template does not take and arguments that are no JSON object.
Json served_messages(const Json& messages, ContentForm form);

/// Whether the template wrote an object in this member of the messages as Python prints it: "{'city': 'Paris'}".
bool has_python_notation(const ChatInput& input, const char* member, const std::string& rendered);

}  // namespace kvcal
