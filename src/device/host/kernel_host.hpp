#pragma once

// Implements the functions of kernel.hpp on the emulator, which has functions with the same names.

#include "emulator/kernel.hpp"

namespace isthmus::device {

using emulator::all;
using emulator::any;
using emulator::async_commit;
using emulator::async_copy;
using emulator::async_wait;
using emulator::ballot;
using emulator::bulk_copy;
using emulator::bulk_fence;
using emulator::BulkBarrier;
using emulator::device_seconds;
using emulator::dynamic_shared;
using emulator::full_warp;
using emulator::grid_sync;
using emulator::has_async_copy;
using emulator::has_bulk_copy;
using emulator::lane;
using emulator::load_acquire;
using emulator::load_global;
using emulator::load_streaming;
using emulator::match_all;
using emulator::match_any;
using emulator::shuffle;
using emulator::shuffle_down;
using emulator::shuffle_up;
using emulator::shuffle_xor;
using emulator::spin_until;
using emulator::spin_wait;
using emulator::store_release;
using emulator::store_streaming;
using emulator::sync_warp;
using emulator::warp_in_block;
using emulator::warp_size;

}  // namespace isthmus::device

#include "device/kernel/refused_names.hpp"
