/* Linked into programs built with --safepoint=flag: the driver asks for curtail_kind_flag. */
const int curtail_kind_flag = 1;
const int curtail_safepoint_built = 1;
