#pragma once

// What the tests may take away from the protocol, to prove that they would see it missing.

namespace isthmus::paging {

/// The protocol as it is. Tests derive from it and set one of these.
struct Sound {
  static constexpr bool serve_early = false;      ///< the page becomes valid before all lanes have copied
  static constexpr bool hold_nothing = false;     ///< the reference is given back before the page is read
  static constexpr bool dirty_late = false;       ///< one who wrote gives the reference back before it says so
  static constexpr bool never_dirty = false;      ///< one who wrote does not say so
  static constexpr bool leak_reference = false;   ///< one who found the page in another's hands enters it again
  static constexpr bool number_late = false;      ///< the frame's number is written after the page has become valid
  static constexpr bool lone_lane_clean = false;  ///< a lane that wrote alone does not say so
  static constexpr bool evicts_unseen = false;  ///< a clean page leaves though somebody has come since it was looked at
  static constexpr bool cleans_unseen = false;  ///< the same of a dirty page that becomes busy
  static constexpr bool evicts_rescued = false;    ///< a page leaves though somebody has come while it was written back
  static constexpr bool cleans_over = false;       ///< the end of a write-back takes away what has come meanwhile
  static constexpr bool publish_unfenced = false;  ///< no fence between the copy and the state
  static constexpr bool enter_unfenced = false;    ///< no fence between the state and the first access
  static constexpr bool evict_unfenced = false;    ///< no fence between the end of a write-back and the next fetch
  static constexpr bool leave_unfenced = false;    ///< no fence between the last access and the state

  /// No bug: other warps come between each look at a state and the exchange that follows, where an emulated one never
  /// would.
  static constexpr bool yields = false;
};

}  // namespace isthmus::paging
