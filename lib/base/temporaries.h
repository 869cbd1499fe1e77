// What AtomicFile and AtomicFolder share: temporary names that no signal leaves behind, and lasting renames.
//
// SIGKILL, a full loss of power and the like do leave one. Whoever makes a temporary holds a lock on it (flock), which
// ends with the process; who finds one of this machine in its folder and gets that lock removes it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kvcal {

/// A name nobody uses, in `folder`; it hides files from listings and says whose they are.
std::filesystem::path temporary_name(const std::filesystem::path& folder);

/// Whether some machine's temporary has this name, ".kvcal-0123456789abcdef.tmp".
bool is_temporary_name(const std::string& name);

/// Whether a part of this path is a name that this program gives to what it works in: a temporary, *.kvcal-resume,
/// *.kvcal-partial, *.kvcal-check.
bool is_working_place(const std::filesystem::path& path);

/// Locks the open temporary. False when it is not under its name any more: it was taken for abandoned.
bool own_temporary(int fd, const std::filesystem::path& path);

/// Removes temporaries in `folder` that a process of this machine, since it was started, made and did not live to
/// remove. Others stay, as locks need not reach from one machine to another: a name says by which it was made. Where
/// the file system has no locks all stay.
void remove_abandoned_temporaries(const std::filesystem::path& folder) noexcept;

/// The folder that a path stands in.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Remembers a temporary file or folder for unlink_temporaries_in_signal_handler() until it is released. -1 when all
/// slots are taken or the name is too long: it is then merely not removed on a signal.
int register_temporary(const std::filesystem::path& path);
void release_temporary(int slot);

/// Of "-" where there is more to write than text: it means standard output, and no file is called so.
constexpr const char* kNotStandardOutput =
    "this is not printed on standard output, expected the name of a file or folder";

/// "no space left on device; is the disk full?"
std::string write_failure(int error);
[[noreturn]] void fail_write(const std::filesystem::path& path, const std::string& reason);
[[noreturn]] void fail_exists(const std::filesystem::path& path, const char* when);

/// fsync; file systems that do not know it are not the user's problem.
bool sync_descriptor(int fd);

/// After a rename: a failure here loses nothing that could still be saved.
void sync_folder(const std::filesystem::path& folder);

/// rename that fails with EEXIST instead of replacing.
bool rename_to_new(const char* from, const char* to);

/// Gives each the other's name in one step; false with errno where the file system cannot.
bool exchange_names(const char* a, const char* b);

}  // namespace kvcal
