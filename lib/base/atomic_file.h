// Output files that exist complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace kvcal {

enum class Existing { Refuse, Replace };

/// Writes to a temporary name in the target's folder; commit() makes it durable and gives it its name. Without commit()
/// the destructor removes it. A target that is a symbolic link to a file is written where it points. Every method
/// throws Error: no such folder, no permission, disk full, the target is a folder, within a command an input
/// (input_files.h) or a file of a model (kept_file.h), or (Existing::Refuse) exists. What a killed process left in that
/// folder is removed (temporaries.h).
class AtomicFile {
 public:
  AtomicFile(std::filesystem::path target, Existing existing);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Replaces bytes that were written.
  void rewrite(uint64_t offset, std::string_view text);

  /// Also throws when something appeared under the target's name meanwhile (Existing::Refuse), or an input was changed.
  /// Call once, write nothing after it.
  void commit();

 private:
  void refuse_kept() const;
  void open_temporary();
  void give_name();
  void discard() noexcept;

  std::filesystem::path shown_;   // as the caller named it, for messages
  std::filesystem::path target_;  // with links resolved
  std::filesystem::path temporary_;
  Existing existing_;
  int fd_ = -1;
  int slot_ = -1;  // in the registry of temporaries
};

/// The whole of AtomicFile for content that is at hand.
void write_file_atomically(const std::filesystem::path& target, std::string_view content, Existing existing);

/// Throws what AtomicFile would throw at once, and leaves nothing behind: for failing before hours of work.
void check_writable(const std::filesystem::path& target, Existing existing);

/// Removes the temporaries of all files under way. Async-signal-safe; for a handler that ends the process.
void unlink_temporaries_in_signal_handler() noexcept;

}  // namespace kvcal
