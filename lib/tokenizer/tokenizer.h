// Text to token ids and back, as the model's own tokenizer.json says.
//
// The file is interpreted, never matched against known models: added tokens, normalizer, pre_tokenizer, model,
// post_processor and decoder are each one file of this folder. The reference is the `tokenizers` library reading the
// same file; where newer transformers versions rebuild a pipeline from tokenizer_class instead, tokenizer.json wins.
//
// Known limit: \p{...} classes come from the installed Oniguruma (6.9.8: Unicode 14); letters younger than that are
// split differently from the reference, which bundles Unicode 16.
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

namespace kvcal {

/// Immutable after loading; const members may be called from several threads.
class Tokenizer {
 public:
  /// Reads tokenizer.json of a checkpoint folder, and from tokenizer_config.json, special_tokens_map.json and
  /// added_tokens.json the tokens that it lacks and the names of special tokens. Throws Error: no tokenizer.json (says
  /// what to do with tokenizer.model, tiktoken.model or vocab.json), malformed or unsupported parts with file and part.
  static Tokenizer load(const std::filesystem::path& folder);

  /// From parsed documents; `config` may be null. Errors do not name a file.
  explicit Tokenizer(const Json& tokenizer_json, const Json& config = nullptr);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  struct Encoded {
    std::vector<int32_t> ids;
    size_t replaced = 0;  // malformed UTF-8 sequences of the text that were read as U+FFFD
  };

  /// Token ids of `text`. With add_special_tokens what the post-processor puts around it (BOS, ...) is added; rendered
  /// chat templates contain it already and must not get it twice. Throws Error when a pattern of the file runs away.
  Encoded encode(std::string_view text, bool add_special_tokens) const;

  /// Text of `ids`; unknown ids are left out, and with skip_special those of special tokens.
  std::string decode(const std::vector<int32_t>& ids, bool skip_special) const;

  /// One more than the largest id, added tokens included. The model's embedding may have more rows.
  size_t vocab_size() const;

  std::optional<int32_t> id_of(std::string_view token) const;
  std::optional<std::string> token_of(int32_t id) const;

  /// Contents of the special tokens that have a name ("bos_token", "eos_token", ..., "image_token"), as far as the
  /// configuration defines them.
  const std::map<std::string, std::string>& special_tokens() const;

 private:
  struct Parts;
  void add_configured_tokens(const Json& config);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kvcal
