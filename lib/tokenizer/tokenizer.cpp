#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "tokenizer/added_tokens.h"
#include "tokenizer/component.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizers.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/token_model.h"
#include "tokenizer/tokenizer_config.h"
#include "unicode/utf8.h"

namespace kvcal {

struct Tokenizer::Parts {
  explicit Parts(const Json& json) : model(make_token_model(json)) {}

  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  AddedTokens added;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  std::map<std::string, std::string> special_tokens;

  void encode_segment(TextSegment segment, TokenModel::Cache& cache, std::vector<uint32_t>& ids) const;
  void prepare_added();
};

namespace {

namespace fs = std::filesystem;

const Json kNull = nullptr;

const Json& member_or_null(const Json& object, const char* key) {
  const Json* m = find_member(object, key);
  return m ? *m : kNull;
}

[[noreturn]] void refuse_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) fail(folder.string() + ": no such folder, expected a checkpoint");
  const auto has = [&](const char* name) { return fs::exists(folder / name, ignored); };
  std::string found;
  if (has("tokenizer.model")) found = "tokenizer.model (SentencePiece)";
  if (has("tiktoken.model")) found = "tiktoken.model";
  if (has("vocab.json") && has("merges.txt")) found = "vocab.json and merges.txt";
  if (has("tekken.json")) found = "tekken.json (Mistral)";
  std::string message = folder.string() + ": no tokenizer.json";
  if (!found.empty())
    message += "; found " + found +
               ", which only holds the vocabulary. Convert it once with transformers: "
               "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes tokenizer.json";
  else
    message += "; is the download complete? Prompts given as input_ids need no tokenizer";
  fail(message);
}

}  // namespace

Tokenizer Tokenizer::load(const fs::path& folder) {
  const fs::path file = folder / "tokenizer.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) refuse_folder(folder);
  const Json config = read_tokenizer_config(folder);
  const Json json = read_json_file(file);
  return while_doing(file.string(), [&] { return Tokenizer(json, config); });
}

Tokenizer::Tokenizer(const Json& j, const Json& config) {
  if (!j.is_object()) fail("the document is " + std::string(j.type_name()) + ", expected an object");
  const Json* model = find_member(j, "model");
  if (!model || !model->is_object()) fail("\"model\" is missing or not an object");
  parts_ = while_doing("model", [&] { return std::make_unique<Parts>(*model); });
  parts_->normalizer = while_doing("normalizer", [&] { return make_normalizer(member_or_null(j, "normalizer")); });
  parts_->pre_tokenizer =
      while_doing("pre_tokenizer", [&] { return make_pre_tokenizer(member_or_null(j, "pre_tokenizer")); });
  parts_->post_processor =
      while_doing("post_processor", [&] { return make_post_processor(member_or_null(j, "post_processor")); });
  parts_->decoder = while_doing("decoder", [&] { return make_decoder(member_or_null(j, "decoder")); });
  while_doing("added_tokens", [&] {
    std::vector<AddedToken> tokens;
    if (find_member(j, "added_tokens"))
      for (const Json& t : component_list(j, "added_tokens")) tokens.push_back(read_added_token(t));
    parts_->added.add(tokens, parts_->model->size(), [&](const std::string& s) { return parts_->model->id_of(s); });
  });
  if (config.is_object()) add_configured_tokens(config);
  parts_->prepare_added();
}

// What the configuration says beside tokenizer.json: "added_tokens_decoder" adds tokens and changes the flags of those
// that are there, names ("eos_token") add tokens or make them special, lists only add.
void Tokenizer::add_configured_tokens(const Json& config) {
  const auto add = [&](const std::vector<AddedToken>& tokens) {
    parts_->added.add(tokens, parts_->model->size(), [&](const std::string& s) { return parts_->model->id_of(s); });
  };
  add(tokens_of_decoder(member_or_null(config, "added_tokens_decoder")));
  std::vector<AddedToken> wanted;
  const auto name_token = [&](const std::string& name, const Json& value) {
    const auto token = configured_token(value);
    if (!token || token->content.empty()) return;
    parts_->special_tokens[name] = token->content;
    if (parts_->added.id_of(token->content)) parts_->added.mark_special(token->content);
    wanted.push_back(*token);
  };
  for (const char* name : kStandardTokenNames)
    if (const Json* value = find_member(config, name)) name_token(name, *value);
  for (const auto& [name, value] : config.items())
    if (name.ends_with("_token") && !parts_->special_tokens.count(name) && !value.is_null() && !value.is_boolean())
      name_token(name, value);
  if (const Json* specific = find_member(config, "model_specific_special_tokens")) {
    if (!specific->is_object())
      fail("model_specific_special_tokens is " + std::string(specific->type_name()) + ", expected an object");
    for (const auto& [name, value] : specific->items()) name_token(name, value);
  }
  for (const char* list : {"extra_special_tokens", "additional_special_tokens"})
    if (const Json* extra = find_member(config, list)) {
      if (extra->is_object())
        for (const auto& [name, value] : extra->items()) name_token(name, value);
      if (extra->is_array())
        for (const Json& value : *extra)
          if (const auto token = configured_token(value)) wanted.push_back(*token);
    }
  std::erase_if(wanted, [&](const AddedToken& t) { return parts_->added.id_of(t.content).has_value(); });
  add(wanted);
}

void Tokenizer::Parts::prepare_added() {
  Allowance allowance(added.bytes());
  const auto normalize = [&](const std::string& content) {
    if (!normalizer) return content;
    TextSegment s(allowance);
    s.text = content;
    normalizer->apply(s);
    allowance.keep("normalizer", s.text.size());
    return s.text;
  };
  while_doing("added_tokens", [&] { added.prepare(normalize); });
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

// One stretch between added tokens of the raw text: normalize, look for the normalized added tokens, cut, encode.
void Tokenizer::Parts::encode_segment(TextSegment segment, TokenModel::Cache& cache, std::vector<uint32_t>& ids) const {
  if (normalizer) normalizer->apply(segment);
  Allowance& allowance = *segment.allowance;
  allowance.keep("normalizer", segment.text.size());
  for (const Stretch& stretch : added.split_normalized(segment.text, allowance)) {
    if (stretch.id) {
      ids.push_back(*stretch.id);
      continue;
    }
    TextSegment part(allowance);
    part.text = segment.text.substr(stretch.span.begin, stretch.span.size());
    const size_t skipped = std::min(stretch.span.begin, segment.origin_bytes);
    part.origin_bytes = std::min(segment.origin_bytes - skipped, part.text.size());
    part.pieces = {{0, part.text.size()}};
    if (pre_tokenizer) pre_tokenizer->apply(part);
    for (const ByteRange& p : part.pieces) model->encode(part.piece(p), allowance, cache, ids);
  }
}

Tokenizer::Encoded Tokenizer::encode(std::string_view bytes, bool add_special_tokens) const {
  const RepairedText input = repair_utf8(bytes);
  Allowance allowance(input.text.size());
  TokenModel::Cache cache;
  std::vector<uint32_t> ids;
  for (const Stretch& stretch : parts_->added.split_raw(input.text, allowance)) {
    if (stretch.id) {
      ids.push_back(*stretch.id);
      continue;
    }
    TextSegment segment(allowance);
    segment.text = input.text.substr(stretch.span.begin, stretch.span.size());
    if (stretch.span.begin == 0) segment.origin_bytes = utf8_length(segment.text[0]);
    parts_->encode_segment(std::move(segment), cache, ids);
  }
  if (parts_->post_processor) ids = parts_->post_processor->apply(std::move(ids), add_special_tokens);
  return {{ids.begin(), ids.end()}, input.replaced};
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids, bool skip_special) const {
  // No vocabulary that was met has tokens of more bytes on average.
  constexpr size_t kLongestMean = 256;
  Allowance allowance(ids.size() * kLongestMean);
  std::vector<std::string> tokens;
  size_t bytes = 0;
  for (int32_t id : ids) {
    if (id < 0) continue;
    const std::string* token = parts_->added.decoded(static_cast<uint32_t>(id));
    if (!token) token = parts_->model->token_of(static_cast<uint32_t>(id));
    if (!token || (skip_special && parts_->added.is_special(*token))) continue;
    bytes += token->size();
    allowance.check_size("decoder", bytes);
    tokens.push_back(*token);
  }
  std::string text;
  const bool decoded = parts_->decoder != nullptr;
  if (decoded) tokens = parts_->decoder->apply(std::move(tokens), allowance);
  for (size_t i = 0; i < tokens.size(); ++i) text += (i > 0 && !decoded ? " " : "") + tokens[i];
  return text;
}

size_t Tokenizer::vocab_size() const {
  size_t limit = parts_->model->id_limit();
  for (const auto& [content, id] : parts_->added.ids()) limit = std::max(limit, size_t{id} + 1);
  return limit;
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  auto id = parts_->added.id_of(std::string(token));
  if (!id) id = parts_->model->id_of(token);
  if (!id) return std::nullopt;
  return static_cast<int32_t>(*id);
}

std::optional<std::string> Tokenizer::token_of(int32_t id) const {
  if (id < 0) return std::nullopt;
  if (const AddedToken* t = parts_->added.find(static_cast<uint32_t>(id))) return t->content;
  if (const std::string* t = parts_->model->token_of(static_cast<uint32_t>(id))) return *t;
  return std::nullopt;
}

const std::map<std::string, std::string>& Tokenizer::special_tokens() const { return parts_->special_tokens; }

}  // namespace kvcal
