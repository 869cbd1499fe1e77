// The file that validate checks, read once: what is checked for a server is what was validated.
#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.h"
#include "base/file_kind.h"

namespace kvcal {

class ValidateInput {
 public:
  /// "-" is standard input; pipes are read to their end, at most 512 MiB. Throws Error for what cannot be read, and for
  /// a file that is of a kind that nothing here checks.
  explicit ValidateInput(const std::string& file);

  const std::string& name() const { return name_; }  // for reports
  FileKind kind() const { return kind_; }
  const std::string& text() const { return text_; }            // all of it; of statistics perhaps less
  const std::filesystem::path& path() const { return path_; }  // of files and of statistics: where the bytes are
  bool is_piped() const { return is_piped_; }

 private:
  void read_regular_file();
  void take_pipe(int fd);

  std::string name_, text_;
  std::filesystem::path path_;
  FileKind kind_ = FileKind::Unknown;
  bool is_piped_ = false;
  Descriptor copy_;  // in memory, of statistics that came through a pipe
};

}  // namespace kvcal
