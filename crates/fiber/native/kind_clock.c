/* Linked into programs built with --safepoint=clock: the driver asks for curtail_kind_clock. */
const int curtail_kind_clock = 1;
const int curtail_safepoint_built = 2;
