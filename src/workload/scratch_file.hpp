#pragma once

// Temporary files that a case creates.

#include <cstddef>
#include <span>
#include <string>

namespace isthmus::workload {

/// Returns the folder for scratch files: TMPDIR, else /tmp.
std::string scratch_folder();

/// Returns the descriptor of an unnamed file in the scratch folder. The caller closes it, which deletes the file; the
/// file is also deleted when this process ends, no matter how. Throws Skip if no file can be created.
int open_scratch_file();

/// Returns whether the file exists only in memory (tmpfs, ramfs).
bool lies_in_memory(int file);

/// Throws Skip (memory) if the scratch folder does not have space for `bytes` bytes.
void require_scratch_room(std::size_t bytes);

/// Writes all of `bytes` at `offset`; may be called by several threads. Throws Skip (memory) if there is not enough
/// space.
void write_scratch_file(int file, std::span<const std::byte> bytes, std::size_t offset);
/// Waits until the whole file is on the storage device, so that its pages can be dropped.
void flush_scratch_file(int file);

}  // namespace isthmus::workload
