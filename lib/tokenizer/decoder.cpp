#include "tokenizer/decoder.h"

#include <optional>

#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/regex.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

size_t size_of(const std::vector<std::string>& tokens) {
  size_t bytes = 0;
  for (const std::string& t : tokens) bytes += t.size();
  return bytes;
}

// The bytes behind the symbols. A token with any other character (an added token) stands for its own UTF-8.
class ByteLevelDecoder final : public Decoder {
 public:
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance&) const override {
    std::string bytes;
    for (const std::string& token : tokens) {
      const size_t mark = bytes.size();
      for (size_t i = 0; i < token.size();) {
        const int b = byte_of_symbol(next_code_point(token, i));
        if (b < 0) {
          bytes.resize(mark);
          bytes += token;
          break;
        }
        bytes += static_cast<char>(b);
      }
    }
    return {repair_utf8(bytes).text};
  }
};

// <0xNN> tokens in a row are the bytes of a text; where that is malformed, each byte becomes U+FFFD.
class ByteFallbackDecoder final : public Decoder {
 public:
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance&) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      RepairedText repaired = repair_utf8(bytes);
      if (repaired.replaced == 0)
        out.push_back(std::move(repaired.text));
      else
        for (size_t i = 0; i < bytes.size(); ++i) out.emplace_back("\xEF\xBF\xBD");
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int b = byte_of(token); b >= 0) {
        bytes += static_cast<char>(b);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    return out;
  }

 private:
  static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  }
  static int byte_of(const std::string& t) {
    if (t.size() != 6 || !t.starts_with("<0x") || t[5] != '>') return -1;
    const int high = t[3] == '+' ? 0 : digit(t[3]), low = digit(t[4]);  // the reference's parser takes a sign
    return high < 0 || low < 0 ? -1 : high * 16 + low;
  }
};

class FuseDecoder final : public Decoder {
 public:
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance&) const override {
    std::string all;
    for (const std::string& t : tokens) all += t;
    return {std::move(all)};
  }
};

// Removes up to `start` characters from the front and `stop` from the back of each token, if they are `content`.
class StripDecoder final : public Decoder {
 public:
  explicit StripDecoder(const Json& j)
      : content_(get_code_point(j, "content")), start_(get_int(j, "start")), stop_(get_int(j, "stop")) {
    if (start_ < 0 || stop_ < 0) fail("Strip: start and stop must not be negative");
  }
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance&) const override {
    for (std::string& token : tokens) {
      const std::u32string codes = to_code_points(token);
      size_t begin = 0, end = codes.size();
      for (int64_t i = 0; i < start_ && begin < end && codes[begin] == content_; ++i) ++begin;
      for (int64_t i = 0; i < stop_ && end > begin && codes[end - 1] == content_; ++i) --end;
      token = from_code_points(std::u32string_view(codes).substr(begin, end - begin));
    }
    return tokens;
  }

 private:
  char32_t content_;
  int64_t start_, stop_;
};

class ReplaceDecoder final : public Decoder {
 public:
  explicit ReplaceDecoder(const Json& j) : content_(get_string(j, "content")) {
    const Pattern pattern = get_pattern(j);
    literal_ = pattern.text;
    if (pattern.is_regex) regex_.emplace(pattern.text);
  }
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance& allowance) const override {
    size_t bytes = size_of(tokens);
    for (std::string& token : tokens) {
      const std::vector<ByteRange> matches =
          regex_ ? regex_->find_all(token, allowance) : find_all_literal(token, literal_);
      bytes += matches.size() * content_.size();
      allowance.check_size("Replace", bytes);
      std::string out;
      size_t previous = 0;
      for (const ByteRange& m : matches) {
        out.append(token, previous, m.begin - previous);
        out += content_;
        previous = m.end;
      }
      token = out.append(token, previous);
    }
    return tokens;
  }

 private:
  std::string content_, literal_;
  std::optional<Regex> regex_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(const Json& j) : replacement_(get_code_point(j, "replacement")) {
    drop_first_ = get_bool_or(j, "add_prefix_space", true) && get_string_or(j, "prepend_scheme", "always") != "never";
  }
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance&) const override {
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::string out;
      for (size_t i = 0; i < tokens[t].size();) {
        const char32_t c = next_code_point(tokens[t], i);
        if (c != replacement_)
          append_utf8(out, c);
        else if (t > 0 || !drop_first_)
          out += ' ';
      }
      tokens[t] = std::move(out);
    }
    return tokens;
  }

 private:
  char32_t replacement_;
  bool drop_first_ = false;
};

// A suffix that marks the end of a word becomes a space, and nothing behind the last token.
class SuffixDecoder final : public Decoder {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance&) const override {
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::string out;
      size_t previous = 0;
      for (const ByteRange& m : find_all_literal(tokens[t], suffix_)) {
        out.append(tokens[t], previous, m.begin - previous);
        if (t + 1 < tokens.size()) out += ' ';
        previous = m.end;
      }
      tokens[t] = out.append(tokens[t], previous);
    }
    return tokens;
  }

 private:
  std::string suffix_;
};

// Tokens behind the first have the prefix of those that go on, or a space before them; cleanup removes spaces that
// English does not write.
class WordPieceDecoder final : public Decoder {
 public:
  explicit WordPieceDecoder(const Json& j)
      : prefix_(get_string_or(j, "prefix", "##")), cleanup_(get_bool_or(j, "cleanup", true)) {}
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance&) const override {
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::string& token = tokens[t];
      if (t > 0 && token.starts_with(prefix_))
        token.erase(0, prefix_.size());
      else if (t > 0)
        token.insert(0, " ");
      if (cleanup_) clean(token);
    }
    return tokens;
  }

 private:
  static void clean(std::string& token) {
    static constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kReplacements) {
      std::string out;
      size_t previous = 0;
      for (const ByteRange& m : find_all_literal(token, from)) {
        out.append(token, previous, m.begin - previous).append(to);
        previous = m.end;
      }
      token = out.append(token, previous);
    }
  }

  std::string prefix_;
  bool cleanup_;
};

class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(const Json& list) : steps_(make_steps<Decoder>(list, make_decoder)) {}
  std::vector<std::string> apply(std::vector<std::string> tokens, Allowance& allowance) const override {
    for (const auto& step : steps_) {
      allowance.look_at(size_of(tokens) + tokens.size() + 1);
      tokens = step->apply(std::move(tokens), allowance);
      allowance.check_size("decoder", size_of(tokens));
    }
    return tokens;
  }

 private:
  std::vector<std::unique_ptr<Decoder>> steps_;
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Json& j) {
  if (j.is_null()) return nullptr;
  const std::string type = component_type(j, "decoder");
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Strip") return std::make_unique<StripDecoder>(j);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(j);
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(j);
  if (type == "BPEDecoder") return std::make_unique<SuffixDecoder>(get_string_or(j, "suffix", "</w>"));
  if (type == "WordPiece") return std::make_unique<WordPieceDecoder>(j);
  if (type == "Sequence") return std::make_unique<DecoderSequence>(component_list(j, "decoders"));
  fail_unsupported(
      "decoder", type,
      {"ByteLevel", "ByteFallback", "Fuse", "Strip", "Replace", "Metaspace", "BPEDecoder", "WordPiece", "Sequence"});
}

}  // namespace kvcal
