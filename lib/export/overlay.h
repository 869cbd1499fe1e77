// A copy of a model folder: its files, linked or copied, some of them edited, and one more shard with scales. The
// original folder is only read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "export/thin_shard.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace kvcal {

/// The shard that an export adds, and the note it leaves about itself.
constexpr const char* kScaleShard = "model-kv-scales.safetensors";
constexpr const char* kExportRecord = "kvcal-export.json";

/// In place: appended to the name of a file that another one stands for now.
constexpr const char* kOriginalSuffix = ".kvcal-original";

/// A file by its path within the folder.
struct TextFile {
  std::string name;
  std::string text;
};

struct ScaleTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;  // as many as the shape has elements
  DType dtype = DType::F32;   // or U8, whose values are whole numbers
};

/// Its elements as the file holds them.
std::vector<std::byte> stored_bytes(const ScaleTensor& tensor);

struct Overlay {
  std::filesystem::path source;
  std::vector<TextFile> files;  // instead of the publisher's, or in addition
  std::vector<ScaleTensor> tensors;
  TensorNames dropped;                // tensors of the publisher's shards that do not come along
  std::vector<std::string> thinned;   // the shards that hold some of them
  std::set<std::string> elsewhere{};  // files of the publisher that somebody else brings along, changed
};

/// What becomes of weight files. Everything else is copied, so that nobody edits the original through the export.
enum class Weights {
  Link,  // a hard link, else a symbolic one (another file system, a file of another owner)
  Copy,
};

struct OverlayReport {
  size_t hard_linked = 0, symlinked = 0, copied = 0, written = 0;
  std::vector<std::string> left_out;      // why, after a colon
  std::vector<std::string> from_outside;  // symbolic links out of the model's folder, and where they lead
};

/// Fills an empty folder. Left out: version control and download bookkeeping, consolidated.* weights, which vLLM would
/// load instead of the others where params.json stands beside them, and what an export in place keeps of the original.
/// Throws Error: disk full, no permission, a file that is neither file nor folder.
OverlayReport fill_overlay(const Overlay& overlay, const std::filesystem::path& into, Weights weights);

/// Only what is not the publisher's: the files, the shard of scales, and shards that lose a tensor.
OverlayReport fill_additions(const Overlay& overlay, const std::filesystem::path& into);

/// Names of the shards that hold a dropped tensor.
std::vector<std::string> thinned_shards(const std::filesystem::path& source, const TensorNames& dropped);

/// The text of the weights' index with the tensors in it and without the dropped ones, and its name; a new one where
/// there is none. Servers ignore a shard that the index does not name.
TextFile index_with(const std::filesystem::path& source, const std::vector<ScaleTensor>& tensors,
                    const TensorNames& dropped);

}  // namespace kvcal
