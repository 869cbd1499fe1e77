#include "prompts/prompt_pictures.h"

#include <algorithm>
#include <functional>

#include "base/base64.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

constexpr size_t kLargestPicture = size_t{64} << 20;

/// The source of a part that is a picture; null: it is something else, or has none.
const Json* source_of(const Json& part) {
  const Json* type = part.is_object() ? find_member(part, "type") : nullptr;
  if (type && *type == "image")
    for (const char* key : {"image", "path", "url"})
      if (const Json* source = find_member(part, key)) return source;
  if (!type || *type != "image_url") return nullptr;
  const Json* image = find_member(part, "image_url");
  return image && image->is_object() ? find_member(*image, "url") : image;
}

/// The parts of all contents that are lists.
void for_each_part(Json& messages, const std::function<void(Json&)>& f) {
  for (Json& message : messages)
    if (auto content = message.find("content"); content != message.end() && content->is_array())
      for (Json& part : *content) f(part);
}

std::string decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  const std::optional<std::string> bytes = bytes_of_base64(text);
  if (!bytes) fail("the data URI is not base64");
  return *bytes;
}

std::string read_source(const std::string& source, const std::filesystem::path& folder) {
  if (source.starts_with("data:")) {
    const size_t comma = source.find(',');
    if (comma == source.npos || !source.substr(0, comma).ends_with(";base64"))
      fail("the data URI does not begin with data:...;base64,");
    return decode_base64(std::string_view(source).substr(comma + 1));
  }
  if (source.find("://") != source.npos)
    fail("picture " + quoted(source) + " is an address; give a file or a data URI");
  return while_doing("picture", [&] { return read_file(folder / source, kLargestPicture); });
}

PatchGrid grid_of(const PromptPicture& picture, const PictureTokens& reader) {
  return while_doing("picture " + quoted(picture.source),
                     [&] { return reader.processor.grid_of(decode_image(*picture.bytes).size); });
}

void check_tokens(const PictureText& text, const Tokenizer* tokenizer) {
  if (!text.tokens.empty() && !tokenizer)
    fail("has a picture, of which texts are a part, but the model has no tokenizer");
  for (const std::string_view token : text.tokens)
    if (!tokenizer->id_of(token))
      fail("has a picture, of which " + quoted(token) + " is a part, which the tokenizer does not know");
}

/// All that becomes of the token of a picture. No text is joined with what stands around a token of a square, so that
/// each is encoded alone.
std::vector<int32_t> tokens_of(const PatchGrid& grid, const PictureTokens& reader, const Tokenizer* tokenizer) {
  std::vector<int32_t> tokens;
  for (const PicturePart& part : parts_of(reader.text, reader.processor.squares(grid))) {
    if (!part.text.empty()) {
      const std::vector<int32_t> ids = tokenizer->encode(part.text, false).ids;
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    tokens.insert(tokens.end(), static_cast<size_t>(part.n_rows), reader.token);
  }
  return tokens;
}

}  // namespace

std::vector<PromptPicture> pictures_in(Json& messages) {
  std::vector<PromptPicture> pictures;
  for_each_part(messages, [&](Json& part) {
    const Json* source = source_of(part);
    if (!source) return;
    if (!source->is_string()) fail("a picture is " + std::string(source->type_name()) + ", expected a text");
    pictures.push_back({source->get<std::string>()});
    part = {{"type", "image"}, {"image", pictures.back().source}};
  });
  return pictures;
}

std::vector<PromptPicture> pictures_of(const Json& image) {
  std::vector<PromptPicture> pictures;
  for (const Json& source : image.is_array() ? image : Json::array({image})) {
    if (!source.is_string())
      fail("image is " + std::string(source.type_name()) + ", expected a text or a list of texts");
    pictures.push_back({source.get<std::string>()});
  }
  return pictures;
}

void read_pictures(std::vector<PromptPicture>& pictures, Json& messages, const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (PromptPicture& picture : pictures) {
    picture.bytes = std::make_shared<const std::string>(read_source(picture.source, folder));
    names.push_back("sha256:" + sha256_hex(*picture.bytes));
    if (picture.source.starts_with("data:")) picture.source = names.back();
  }
  size_t next = 0;
  for_each_part(messages, [&](Json& part) {
    if (source_of(part)) part["image"] = names.at(next++);
  });
}

std::string with_pictures(std::string text, const PictureText& picture) {
  if (picture.written.empty()) return text;
  for (size_t at = 0; (at = text.find(picture.written, at)) != text.npos; at += picture.read.size())
    text.replace(at, picture.written.size(), picture.read);
  return text;
}

std::vector<Picture> expand_pictures(const std::vector<PromptPicture>& pictures, const PictureTokens& reader,
                                     const Tokenizer* tokenizer, std::vector<int32_t>& ids,
                                     std::vector<uint8_t>& kinds) {
  const auto n_tokens = static_cast<size_t>(std::ranges::count(ids, reader.token));
  if (n_tokens != pictures.size())
    fail("has " + std::to_string(n_tokens) + " image token(s) (" + std::to_string(reader.token) + ") for " +
         std::to_string(pictures.size()) + " picture(s), expected one for each");
  check_tokens(reader.text, tokenizer);
  std::vector<Picture> out;
  std::vector<int32_t> all_ids;
  std::vector<uint8_t> all_kinds;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<int32_t> become = {ids[i]};
    if (ids[i] == reader.token) {
      const PromptPicture& picture = pictures[out.size()];
      out.push_back({picture.bytes, grid_of(picture, reader)});
      become = tokens_of(out.back().grid, reader, tokenizer);
    }
    all_ids.insert(all_ids.end(), become.begin(), become.end());
    all_kinds.insert(all_kinds.end(), become.size(), kinds[i]);
  }
  ids = std::move(all_ids);
  kinds = std::move(all_kinds);
  return out;
}

}  // namespace kvcal
