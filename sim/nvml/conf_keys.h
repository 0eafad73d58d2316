/* The keys that a section may hold: one row a key, for the parser to look up and fill in. */
#ifndef GPUFLEET_CONF_KEYS_H
#define GPUFLEET_CONF_KEYS_H

#include "conf.h"

enum sim_section { SIM_SECTION_SYSTEM, SIM_SECTION_GPU, SIM_SECTION_SWITCH, SIM_SECTION_LINK };

struct sim_key {
    const char *name;
    bool (*read)(const struct sim_key *key, const char *value, void *target, struct sim_error *error);
    size_t offset;   /* of the field in the section's target */
    uint64_t limit;  /* bytes of a text field, else the largest number allowed */
    bool repeatable; /* may stand more than once in a section */
};

enum { SIM_MAX_KEYS = 80 };

/* What a [link A B] section fills. */
struct sim_link {
    uint64_t path, nvlinks;
};

/* Keys of a section, ended by a row without name. */
const struct sim_key *sim_keys(enum sim_section section);

#endif
