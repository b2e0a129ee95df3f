#pragma once

// The two kinds of movement that make_movement() chooses from.

#include "microbench/transfer/movement.hpp"

namespace isthmus::microbench::transfer {

EndBytes copy_footprint(const End& from, const End& to, Initiator initiator, const Settings& settings);
std::unique_ptr<Movement> make_copy_movement(const End& from, const End& to, Initiator initiator,
                                             const Settings& settings, unsigned number);

EndBytes page_footprint(const End& from, const End& to, Initiator initiator, const Settings& settings);
std::unique_ptr<Movement> make_page_movement(const End& from, const End& to, Initiator initiator,
                                             const Settings& settings, unsigned number);

}  // namespace isthmus::microbench::transfer
