// What a command has read: no output of it may replace that, and none may be made of files that changed meanwhile.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>

namespace kvcal {

/// While one lives, every file that read_file() or MappedFile opens is recorded, by what it is (device, inode, size,
/// time of its last change) and not by its name. One at a time; without one the functions below do nothing. Names that
/// this program gives to what it works in (.kvcal-*, *.kvcal-resume, *.kvcal-partial) are not recorded.
class InputFiles {
 public:
  InputFiles();
  ~InputFiles();
  InputFiles(const InputFiles&) = delete;
  InputFiles& operator=(const InputFiles&) = delete;
};

/// Whether one lives: what is written then are outputs that a user has named.
bool records_inputs();

/// How long the bytes of a file matter.
enum class InputUse {
  Once,  // they were read whole
  Long,  // they are read as long as the command runs
};

/// `info` is that of the open file. Throws Error when another file of this name, or other content, was read before:
/// what comes of both is made of neither.
void note_input(const std::filesystem::path& path, const struct stat& info, InputUse use);

/// Files in this folder are of use for long: a checkpoint, whose parts belong together.
void note_input_folder(const std::filesystem::path& folder);

/// Whether `outer` is `inner`, or a folder above it, by their names.
bool is_within(const std::filesystem::path& inner, const std::filesystem::path& outer);

/// A file that the command has read to replace it.
void forget_input(const std::filesystem::path& path);

/// What was read in folders that note_input_folder() knows, and these: the next result is of other checkpoints.
void forget_inputs();

/// The name under which this very file was read.
std::optional<std::string> input_that_is(const struct stat& info);

/// A file that was read and lies in this folder.
std::optional<std::string> input_within(const std::filesystem::path& folder);

/// Throws Error naming the first file of long use that is another one now, or was written to. One that was deleted is
/// still whole for whoever has it open.
void check_inputs_unchanged();

}  // namespace kvcal
