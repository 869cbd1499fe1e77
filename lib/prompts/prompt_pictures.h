// Pictures of a prompt: where its record has them, their bytes, and the tokens that stand for them.
#pragma once

#include <filesystem>
#include <vector>

#include "prompts/prompt_set.h"

namespace kvcal {

/// Those in the contents of messages, each of which becomes {"type": "image", "image": "..."}, however it was written.
std::vector<PromptPicture> pictures_in(Json& messages);

/// Those of "image": a text, or a list of texts.
std::vector<PromptPicture> pictures_of(const Json& image);

/// Reads the bytes of each, and puts "sha256:..." of them in place of their sources: into `messages` too, if there are
/// any. Throws Error for an address, a file that cannot be read or is too large, and a broken data URI.
void read_pictures(std::vector<PromptPicture>& pictures, Json& messages, const std::filesystem::path& folder);

/// A text with each picture as it is read.
std::string with_pictures(std::string text, const PictureText& picture);

/// Repeats the token of each picture, and its kind, as often as the picture has squares, with the texts among them;
/// `tokenizer` may be null where there are none. Throws Error where there are not as many tokens as pictures,
/// and for a picture that cannot be read.
std::vector<Picture> expand_pictures(const std::vector<PromptPicture>& pictures, const PictureTokens& reader,
                                     const Tokenizer* tokenizer, std::vector<int32_t>& ids,
                                     std::vector<uint8_t>& kinds);

}  // namespace kvcal
