#include "prefill/encoder_file.h"

#include <algorithm>

#include "checkpoint/safetensors.h"

namespace kvcal {
namespace {

const TensorInfo& required(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (!info) fail("has no tensor " + quoted(name));
  return *info;
}

Tensor read_rows(const SafetensorsFile& file, const std::string& name, int64_t n, int64_t hidden) {
  const TensorInfo& info = required(file, name);
  if (info.dtype != DType::BF16 && info.dtype != DType::F16 && info.dtype != DType::F32)
    fail(str(info) + ": " + quoted(name) + " should be BF16, F16 or F32");
  if (info.shape != Shape{n, hidden})
    fail(quoted(name) + " is " + str(info) + ", expected " + str(Shape{n, hidden}) +
         " (placeholder tokens of the prompt, the model's hidden size)");
  return file.tensor(info);
}

int64_t integer_at(const Tensor& t, int64_t i) {
  return t.dtype == DType::I64 ? t.as<int64_t>()[i] : t.as<int32_t>()[i];
}

void read_positions(const SafetensorsFile& file, int64_t n_tokens, const ModelSpec& spec, EncoderRows& rows) {
  const TensorInfo& info = required(file, "positions");
  if (info.dtype != DType::I64 && info.dtype != DType::I32)
    fail("'positions' is " + str(info) + ", expected I32 or I64");
  if (info.shape != Shape{spec.n_position_axes, n_tokens})
    fail("'positions' is " + str(info) + ", expected " + str(Shape{spec.n_position_axes, n_tokens}) +
         " (rows that the model's RoPE takes, tokens of the prompt)");
  const Tensor t = file.tensor(info);
  rows.n_axes = spec.n_position_axes;
  for (int64_t i = 0; i < t.elements(); ++i) {
    const int64_t p = integer_at(t, i);
    if (p < 0 || p >= spec.max_positions)
      fail("'positions' holds " + std::to_string(p) + ", expected 0 to " + std::to_string(spec.max_positions - 1));
    rows.positions.push_back(static_cast<int32_t>(p));
  }
}

// The streams are numbered from 0; nothing else may be in the file, so that a misspelt name is no silent loss.
void check_names(const SafetensorsFile& file, int64_t n_deepstack) {
  std::vector<std::string> known = {"embeddings", "positions"};
  for (int64_t i = 0; i < n_deepstack; ++i) known.push_back("deepstack." + std::to_string(i));
  for (const TensorInfo& info : file.tensors())
    if (std::find(known.begin(), known.end(), info.name) == known.end()) fail_unknown("tensor", info.name, known);
}

std::shared_ptr<const EncoderRows> read(const std::filesystem::path& path, std::span<const int32_t> ids,
                                        const ModelSpec& spec) {
  if (spec.placeholders.empty()) fail("a " + spec.architecture + " is read without embeddings of images or videos");
  auto rows = std::make_shared<EncoderRows>();
  int64_t n = 0;
  for (const int32_t id : ids) {
    const bool placeholder =
        std::find(spec.placeholders.begin(), spec.placeholders.end(), id) != spec.placeholders.end();
    rows->row_of.push_back(placeholder ? static_cast<int32_t>(n++) : -1);
  }
  if (spec.images_seen_whole) rows->last_seen = ends_of_images(rows->row_of);
  if (n == 0) fail("the prompt has no placeholder token (" + std::to_string(spec.placeholders.front()) + ", ...)");
  const auto file = std::make_shared<SafetensorsFile>(path);
  check_names(*file, spec.n_deepstack);
  rows->embeddings = read_rows(*file, "embeddings", n, spec.hidden);
  for (int64_t i = 0; i < spec.n_deepstack; ++i)
    rows->deepstack.push_back(read_rows(*file, "deepstack." + std::to_string(i), n, spec.hidden));
  read_positions(*file, static_cast<int64_t>(ids.size()), spec, *rows);
  rows->memory = file;
  return rows;
}

}  // namespace

std::shared_ptr<const EncoderRows> read_encoder_file(const std::filesystem::path& path, std::span<const int32_t> ids,
                                                     const ModelSpec& spec) {
  return while_doing("reading " + quoted(path.string()), [&] { return read(path, ids, spec); });
}

}  // namespace kvcal
