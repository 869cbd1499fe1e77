// Prompts with pictures through the whole program: as rows in a file would give, whatever the threads and chunks, and
// known by their bytes.
#include "calibrate/pictures.h"

#include <gtest/gtest.h>

#include <fstream>

#include "artifact/artifact.h"
#include "base/token_kind.h"
#include "calibrate/calibrate.h"
#include "e2e/runs.h"
#include "harness/message_of.h"
#include "harness/picture_model.h"

namespace kvcal {
namespace {

class PicturePromptsTest : public testing::TestWithParam<std::string> {
 protected:
  void write(const Json& record) const { std::ofstream(scratch_.path() / "p.jsonl") << record.dump() << '\n'; }

  PromptSource prompts() const {
    return [this](bool) { return load_prompts({scratch_.path() / "p.jsonl"}); };
  }

  /// The golden's prompt: its pictures' paths from the prompt file's folder.
  Json record() const {
    for (size_t i = 0; i < 2; ++i)
      fs::copy_file(model_.image(i), scratch_.path() / model_.image(i).filename(),
                    fs::copy_options::overwrite_existing);
    return {{"input_ids", model_.golden()["prompt"]}, {"image", model_.golden()["images"]}};
  }

  Artifact calibrated(int threads, int64_t chunk_tokens) const {
    CalibrationOptions options;
    options.chunk_tokens = chunk_tokens;
    Recorder listener;
    const OpenDevices open = [&] { return Devices(open_device("cpu", options.precision, threads)); };
    return calibrate({model_.folder(), prompts(), open}, options, listener).artifact.value();
  }

  /// What the tower makes of the golden's prompt, as a file of embeddings beside the prompts.
  void write_embeddings(const fs::path& path) const {
    OpenedModel model(model_.folder());
    NoticeListener silent;
    const std::vector<PromptTokens> tokens = tokens_of(feed_prompts(model, {}, prompts(), silent), model);
    see_pictures(model, *open_device("cpu", Precision::BF16, 1), tokens, 0);
    const EncoderRows& rows = *tokens[0].encoder;
    SafetensorsWriter out(path, Existing::Refuse);
    const Shape positions{rows.n_axes, static_cast<int64_t>(rows.row_of.size())};
    std::map<std::string, Tensor> all = {{"embeddings", rows.embeddings}};
    for (size_t i = 0; i < rows.deepstack.size(); ++i) all["deepstack." + std::to_string(i)] = rows.deepstack[i];
    all["positions"] = {const_cast<int32_t*>(rows.positions.data()), positions, DType::I32};
    for (const auto& [name, tensor] : all) out.declare(name, tensor.dtype, tensor.shape);
    for (const auto& [name, tensor] : all) out.write(name, tensor);
    out.commit();
  }

  PictureModel model_{GetParam()};
  Scratch scratch_;
};

std::string layers_of(const Artifact& artifact) { return parse_json(artifact_text(artifact)).at("layers").dump(); }

TEST_P(PicturePromptsTest, give_what_their_rows_in_a_file_give) {
  Json pictures = record();
  pictures["id"] = "p";
  write(pictures);
  const std::string seen = layers_of(calibrated(1, 0));
  write_embeddings(scratch_.path() / "rows.safetensors");
  write({{"input_ids", model_.golden()["input_ids"]}, {"embeddings", "rows.safetensors"}, {"id", "p"}});
  EXPECT_EQ(layers_of(calibrated(1, 0)), seen);
}

TEST_P(PicturePromptsTest, give_equal_bytes_for_all_threads_and_chunks) {
  write(record());
  const std::string base = artifact_text(calibrated(1, 4096));
  EXPECT_EQ(artifact_text(calibrated(2, 256)), base);
}

TEST_P(PicturePromptsTest, are_known_by_their_bytes) {
  OpenedModel model(model_.folder());
  NoticeListener silent;
  const auto fed = [&](const Json& json) {
    write(json);
    return feed_prompts(model, {}, prompts(), silent);
  };
  const Json one = record();
  Json other = one;
  std::swap(other["image"][0], other["image"][1]);
  EXPECT_NE(fed(one).sha256, fed(other).sha256);
  EXPECT_NE(tokens_of(fed(one), model)[0].encoder_sha256, tokens_of(fed(other), model)[0].encoder_sha256);
  EXPECT_EQ(fed(one).prompts[0].input_ids, model_.golden()["input_ids"].get<std::vector<int32_t>>());
  EXPECT_TRUE(has_encoder_rows(fed(one)));
}

INSTANTIATE_TEST_SUITE_P(Cases, PicturePromptsTest, testing::ValuesIn(picture_cases()),
                         [](const auto& c) { return c.param; });

TokenizedPrompt fed(const PictureModel& pictures, const Json& record) {
  NoticeListener silent;
  const std::string file = (pictures.image(0).parent_path() / "p.jsonl").string();
  const auto source = [&](bool) { return parse_prompts(record.dump(), file); };
  return feed_prompts(OpenedModel(pictures.folder()), {}, source, silent).prompts.at(0);
}

TEST(PicturePrompts, become_the_tokens_of_the_references_processor) {
  int n_chats = 0;
  for (const std::string& name : picture_cases()) {
    const PictureModel pictures(name);
    if (!pictures.golden().contains("chat")) continue;
    const TokenizedPrompt chat = fed(pictures, {{"messages", pictures.golden()["chat"]}});
    EXPECT_EQ(chat.input_ids, pictures.golden()["chat_ids"].get<std::vector<int32_t>>()) << name;
    EXPECT_EQ(chat.kinds.size(), chat.input_ids.size()) << name;
    ++n_chats;
  }
  EXPECT_EQ(n_chats, 12);
}

TEST(PicturePrompts, of_gemma_3_are_written_out_before_they_become_tokens) {
  const PictureModel pictures("gemma3_vl");
  const TokenizedPrompt chat = fed(pictures, {{"messages", pictures.golden()["chat"]}});
  EXPECT_EQ(chat.kinds.at(6), token_kind(TokenRole::User, 1)) << "what the processor writes is the user's as well";
  const TokenizedPrompt text = fed(pictures, {{"text", "a\n<start_of_image>"}, {"image", "shrunk.png"}});
  EXPECT_EQ(text.text, "a\n\n\n<start_of_image><image_soft_token><end_of_image>\n\n");
  EXPECT_EQ(text.input_ids, (std::vector<int32_t>{10, 43, 93, 92, 92, 92, 92, 94, 42}));
}

TEST(PicturePrompts, of_internvl_get_their_start_and_end) {
  const TokenizedPrompt text = fed(PictureModel("internvl"), {{"text", "a<IMG_CONTEXT>b"}, {"image", "grown.jpg"}});
  EXPECT_EQ(text.text, "a<img><IMG_CONTEXT></img>b");
  EXPECT_EQ(text.input_ids, (std::vector<int32_t>{10, 93, 92, 92, 92, 92, 94, 11}));
}

TEST(PicturePrompts, of_internvl_chat_are_words_in_the_text) {
  const PictureModel pictures("internvl_chat");
  const TokenizedPrompt text = fed(pictures, {{"text", "a<image>b"}, {"image", "grown.jpg"}});
  EXPECT_EQ(text.text, "a<img><IMG_CONTEXT></img>b");
  EXPECT_EQ(text.input_ids, (std::vector<int32_t>{10, 93, 92, 92, 92, 92, 94, 11}));
  const auto part = [](const char* key, const char* value) { return Json{{"type", key}, {key, value}}; };
  const Json content = {part("text", "a"), part("image", "grown.jpg"), part("text", "b"), part("image", "shrunk.png")};
  const TokenizedPrompt chat = fed(pictures, {{"messages", {{{"role", "user"}, {"content", content}}}}});
  EXPECT_TRUE(
      chat.text.starts_with("<|im_start|>user\n<img><IMG_CONTEXT></img>\n<img><IMG_CONTEXT></img>\na\nb<|im_end|>"))
      << chat.text;
}

TEST(PicturePrompts, of_pixtral_need_the_tokens_that_end_rows) {
  const PictureModel pictures("mistral3");
  const Json record = {{"input_ids", {92, 1}}, {"image", "grown.jpg"}, {"id", "p"}};
  EXPECT_EQ(fed(pictures, record).input_ids, (std::vector<int32_t>{92, 92, 91, 92, 92, 90, 1}));
  Json tokenizer = read_json_file(pictures.folder() / "tokenizer.json");
  const auto refusal = [&] { return message_of([&] { fed(pictures, record); }); };
  tokenizer["model"]["vocab"].erase("[IMG_BREAK]");
  tokenizer["added_tokens"].clear();
  std::ofstream(pictures.folder() / "tokenizer.json") << tokenizer.dump();
  EXPECT_TRUE(refusal().ends_with("of which '[IMG_BREAK]' is a part, which the tokenizer does not know")) << refusal();
  fs::remove(pictures.folder() / "tokenizer.json");
  EXPECT_TRUE(refusal().ends_with("of which texts are a part, but the model has no tokenizer")) << refusal();
}

TEST(PicturePrompts, refusals_name_the_picture) {
  const PictureModel pictures("qwen3_vl");
  const OpenedModel model(pictures.folder());
  NoticeListener silent;
  const auto expect = [&](const Json& image, const PromptOptions& options, const std::string& end) {
    const Json record = {{"input_ids", pictures.golden()["prompt"]}, {"image", image}};
    const auto prompts = [&](bool) {
      return parse_prompts(record.dump(), (pictures.image(0).parent_path() / "p.jsonl").string());
    };
    const std::string message = message_of([&] { feed_prompts(model, options, prompts, silent); });
    EXPECT_TRUE(message.ends_with(end)) << message;
  };
  expect("shrunk.png", {}, "has 2 image token(s) (92) for 1 picture(s), expected one for each");
  expect({"shrunk.png", "data:;base64,QUJD"}, {}, "': is no PNG, JPEG or WebP picture");
  expect({"shrunk.png", "data:;base64,Q!"}, {}, "p.jsonl:1: the data URI is not base64");
  expect({"shrunk.png", "https://host/cat.png"}, {},
         "p.jsonl:1: picture 'https://host/cat.png' is an address; give a file or a data URI");
  expect({"shrunk.png", "absent.png"}, {}, "absent.png': cannot open: no such file or directory");
  expect({"shrunk.png", "grown.jpg"}, {.max_length = 20},
         "has 25 tokens, more than the maximum length 20, and a prompt with images cannot be truncated");
}

}  // namespace
}  // namespace kvcal
