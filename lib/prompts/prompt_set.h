// Prompt sets: what a calibration is fed, from JSON lines, JSON arrays or plain text.
//
// A record is one JSON object with exactly one kind of content:
//   {"text": "..."}                                  raw text; so is a record that is a text
//   {"messages": [{"role","content"}...], "tools"?}  a chat; goes through the model's chat template. Other shapes of
//                                                    chats, of public sets and logs: prompts/record_shapes.h
//   {"prompt": "...", "completion": "..."}           raw text, joined
//   {"input_ids": [1, 2, 3]}                         token ids as they are; with "embeddings" (a safetensors file, its
//                                                    path from the prompt file's folder) what an encoder made of the
//                                                    images among them
// Where a record has a chat, "text" and "prompt" are what its set made of that, and are not read.
// "text", "prompt" and "input_ids" may have an "image", or a list of them, one for each image token that stands there;
// messages have them in their contents, as {"type": "image", "image": "..."} or {"type": "image_url", "image_url":
// {"url": "..."}}: paths from the prompt file's folder, or data URIs.
// and optionally "id" (text or integer), "weight" (whole repeat count, at least 1), "tags" (list of texts), "expect"
// (what a right answer has: prompts/expectation.h). Other keys are left alone. Files: .jsonl (one record a line; blank
// lines are skipped), .json (one record, or several with white space between them), .txt (the whole file is one prompt,
// without its last newline), each also with .gz or .zst behind; "-" is JSON lines from standard input. Any other name
// is read as JSON lines. Whatever the name, a file that begins with '[' is an array of records. Order and spread over
// files do not matter to the ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "prompts/expectation.h"
#include "vision/patch_processor.h"

namespace kvcal {

class Tokenizer;
class ChatTemplate;

enum class PromptKind { Text, Chat, Ids };

struct PromptPicture {
  std::string source;                          // path or data URI, as given until the record's file is known
  std::shared_ptr<const std::string> bytes{};  // then
};

struct PromptRecord {
  // Given, or the first 16 hexadecimal digits of the hash of `canonical`. Behind a '#': those of a given id that has
  // several contents; 2, 3 for repeats.
  std::string id;
  bool is_named = false;  // the id was given
  std::string
      canonical;  // canonical JSON of the content (text | messages, tools | input_ids), the same for every spelling
  std::string source;  // "file:line", for messages
  PromptKind kind = PromptKind::Text;
  std::string text;                     // Text
  Json messages, tools = nullptr;       // Chat
  std::vector<int32_t> input_ids;       // Ids
  std::filesystem::path embeddings;     // of Ids; as given until the record's file is known
  std::string embeddings_sha256;        // of that file's bytes
  std::vector<PromptPicture> pictures;  // in the order of their tokens
  int64_t weight = 1;
  std::vector<std::string> tags;
  std::optional<Expectation> expect;
};

struct PromptSet {
  std::vector<PromptRecord> records;  // in the order of the files
  std::vector<std::string> skipped;   // "file:line: reason" of records left out with skip_bad
  std::vector<std::string> notes;     // what was decided about the records, for people
  size_t replaced = 0;                // malformed UTF-8 sequences that became U+FFFD
};

struct PromptLoadOptions {
  bool skip_bad = false;                     // leave bad records out and say so in `skipped`, instead of throwing
  bool strict_utf8 = false;                  // malformed UTF-8 is an error
  size_t max_file_bytes = size_t{4} << 30;   // after decompression
  size_t max_line_bytes = size_t{64} << 20;  // of one record
  size_t max_records = 200'000;              // kept
  size_t first = 0;                          // keep so many, the first by id, and perhaps more. 0: all
};

/// Reads all records. Throws Error "file:line: reason" for the first bad one; always for a file that cannot be read, or
/// is in a format of tables, and a set without any record.
PromptSet load_prompts(const std::vector<std::filesystem::path>& paths, const PromptLoadOptions& options = {});

/// The same from text in memory: JSON lines, or a JSON array when `name` ends with ".json", or plain text for ".txt".
PromptSet parse_prompts(std::string_view text, const std::string& name, const PromptLoadOptions& options = {});

/// How the pictures of prompts become tokens.
struct PictureTokens {
  int32_t token = 0;  // that stands for a picture once, and then for each of its squares
  PictureText text;
  PatchProcessor processor;
};

struct TokenizeOptions {
  int64_t max_length = 0;  // tokens; longer prompts are cut off behind this many. 0: no limit
  int64_t vocab_size = 0;  // rows of the model's embedding; every id must be below it. 0: the tokenizer's size
  bool skip_bad = false;   // leave prompts out that fail or give no token
  int64_t max_prompts = 0, max_tokens = 0;          // the first that are there, so many at most; 0: all
  Json template_kwargs = Json::object();            // variables for the chat template
  std::optional<int64_t> unix_seconds;              // for templates that print the date
  std::shared_ptr<const PictureTokens> pictures{};  // null where no prompt has any
};

struct TokenizedPrompt {
  std::string id;
  std::string canonical;  // of the record
  std::string text;       // what was tokenized: the rendered template, or the raw text; empty for input_ids
  std::vector<int32_t> input_ids;
  int64_t n_before_truncation = 0;
  bool truncated = false;
  int64_t weight = 1;
  std::filesystem::path embeddings{};
  std::string embeddings_sha256{};
  std::vector<Picture> pictures{};
  std::vector<uint8_t> kinds{};     // of each token (base/token_kind.h); tokens of images count as text here
  std::vector<std::string> tags{};  // sorted, each once
  std::optional<Expectation> expect{};
};

struct TokenizedSet {
  std::vector<TokenizedPrompt> prompts;  // in the order of the records
  std::vector<std::string> skipped;      // "id (file:line): reason"
  size_t n_truncated = 0;
  size_t replaced = 0;             // malformed UTF-8 sequences in texts
  size_t n_not_told_apart = 0;     // chats with too many messages to find the end of each
  size_t n_written_as_python = 0;  // chats in which the template wrote arguments of a tool call as Python prints them
};

/// What to say of chats that were not read as they might be.
std::vector<std::string> notes_on(const TokenizedSet& set);

/// Chats are rendered (with a generation prompt unless the last message is the assistant's) and encoded without further
/// special tokens; raw text is encoded with those of the post-processor. `tokenizer` may be null when all records hold
/// input_ids, `chat_template` when none is a chat. Throws Error naming the prompt, unless skip_bad.
TokenizedSet tokenize_prompts(const PromptSet& set, const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                              const TokenizeOptions& options = {});

}  // namespace kvcal
