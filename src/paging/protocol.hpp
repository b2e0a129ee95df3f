#pragma once

// Faults that tests can plant in the protocol, to prove that they detect them.

namespace isthmus::paging {

/// Complete protocol without faults. Tests derive from it and set one of these constants to true.
struct Sound {
  static constexpr bool serve_early = false;       ///< the page becomes valid before all lanes have copied
  static constexpr bool hold_nothing = false;      ///< the reference is dropped before the page is read
  static constexpr bool dirty_late = false;        ///< a writer drops the reference before it sets the dirty bit
  static constexpr bool never_dirty = false;       ///< a writer never sets the dirty bit
  static constexpr bool leak_reference = false;    ///< a lane that finds that another group works on the page takes a
                                                   ///< second reference
  static constexpr bool number_late = false;       ///< the frame's number is written after the page has become valid
  static constexpr bool lone_lane_clean = false;   ///< a lane that writes alone does not set the dirty bit
  static constexpr bool evicts_unseen = false;     ///< a clean page is evicted even if it has been entered since its
                                                   ///< state was read
  static constexpr bool cleans_unseen = false;     ///< a dirty page becomes busy even if it has been entered since its
                                                   ///< state was read
  static constexpr bool evicts_rescued = false;    ///< a page is evicted even if it has been entered during its
                                                   ///< write-back
  static constexpr bool cleans_over = false;       ///< the end of a write-back overwrites changes made during the
                                                   ///< write-back
  static constexpr bool publish_unfenced = false;  ///< no fence between the copy and the state
  static constexpr bool enter_unfenced = false;    ///< no fence between the state and the first access
  static constexpr bool evict_unfenced = false;    ///< no fence between the end of a write-back and the next fetch
  static constexpr bool leave_unfenced = false;    ///< no fence between the last access and the state

  /// Not a fault: lets other warps run between reading a state and the exchange that follows, which otherwise never
  /// happens on the emulator.
  static constexpr bool yields = false;
};

}  // namespace isthmus::paging
