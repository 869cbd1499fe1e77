#include "validate_input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/finite_input.h"
#include "base/read_file.h"
#include "validate/validate.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "a scale file, statistics, an evaluation, a page of report --evidence or a checkpoint folder";

std::string read_to_end(int fd, const std::string& name) {
  std::string bytes;
  std::string chunk(size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(quoted(name) + ": cannot read: " + errno_text(errno));
    if (n == 0) return bytes;
    bytes.append(chunk, 0, static_cast<size_t>(n));
    if (bytes.size() > kMostPiped)
      fail(quoted(name) + ": is longer than " + std::to_string(kMostPiped) + " bytes, the most that is read of a pipe");
  }
}

/// An extension decides of what is too broken to tell.
FileKind settled(FileKind kind, const fs::path& path) {
  return kind == FileKind::Unknown && path.extension() == ".kvstats" ? FileKind::Statistics : kind;
}

}  // namespace

ValidateInput::ValidateInput(const std::string& file) : name_(file), path_(file) {
  std::error_code ignored;
  if (file == "-" || file == "/dev/stdin") {
    name_ = "standard input";
    take_pipe(STDIN_FILENO);
  } else if (fs::is_fifo(path_, ignored)) {
    const Descriptor pipe(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!pipe) fail(quoted(file) + ": cannot open: " + errno_text(errno));
    check_has_end(pipe.get(), quoted(file));
    ::fcntl(pipe.get(), F_SETFL,
            0);  // it was O_NONBLOCK, so that opening a named pipe does not wait for who writes to it
    take_pipe(pipe.get());
  } else {
    read_regular_file();
  }
  using enum FileKind;
  const auto is_checked = {Unknown, ScaleFile, Statistics, Evaluation, ReportPage};
  if (std::ranges::find(is_checked, kind_) == is_checked.end()) {
    const bool served = kind_ == SglangScales;
    fail(other_kind(name_, kind_, kExpected) +
         (served ? "; 'kvcal doctor " + name_ + " --model MODEL' holds it against what SGLang asks for" : ""));
  }
}

/// Statistics may be larger than memory: they are read where they are needed.
void ValidateInput::read_regular_file() {
  std::error_code ignored;
  const uintmax_t bytes = fs::file_size(path_, ignored);
  if (!ignored && bytes > kMostArtifactBytes) {
    kind_ = settled(kind_of_file(path_), path_);
    if (kind_ == FileKind::Statistics) return;
  }
  text_ = reading(FileKind::ScaleFile, kExpected, path_, [&] { return read_file(path_, kMostArtifactBytes); });
  kind_ = settled(kind_of_bytes(text_), path_);
}

void ValidateInput::take_pipe(int fd) {
  text_ = read_to_end(fd, name_);
  kind_ = kind_of_bytes(text_);
  is_piped_ = true;
  if (kind_ != FileKind::Statistics) return;
  copy_ = Descriptor(::memfd_create("kvcal", MFD_CLOEXEC));
  path_ = "/proc/self/fd/" + std::to_string(copy_.get());
  std::string_view rest = text_;
  while (!rest.empty()) {
    const ssize_t n = ::write(copy_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(quoted(name_) + ": cannot be kept in memory: " + errno_text(errno));
    rest.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace kvcal
