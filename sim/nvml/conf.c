#include "conf.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf_keys.h"

enum { MAX_LINE = 1024, TEMPLATE = -1 };

struct parser {
    struct sim_system *system;
    struct sim_gpu template; /* what [gpu *] said: every GPU starts as a copy of it */
    struct sim_link link;
    struct sim_error *error;
    unsigned line;
    /* The section being read. */
    bool in_section;
    enum sim_section section;
    unsigned section_line;
    void *target;
    unsigned link_ends[2];
    bool seen[SIM_MAX_KEYS];
    /* What there was so far. */
    bool had_system, had_template, had_gpu[SIM_MAX_GPUS], had_switch[SIM_MAX_SWITCHES];
    unsigned gpus, switches;
    bool had_pair[SIM_MAX_GPUS][SIM_MAX_GPUS];
    unsigned gpu_lines[SIM_MAX_GPUS];
};

bool sim_fail(struct sim_error *error, unsigned line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    error->line = line;
    return false;
}

bool sim_parse_bus_id(const char *text, struct sim_bus_id *id)
{
    uint64_t parts[3];
    unsigned count = 0;
    const char *at = text;
    while (count < 3) {
        char *end = NULL;
        if (!isxdigit((unsigned char)*at))
            return false;
        parts[count++] = strtoull(at, &end, 16);
        if (end - at > 8)
            return false;
        at = end;
        if (*at != ':')
            break;
        at++;
    }
    if (count < 2 || strcmp(at, ".0") != 0)
        return false;
    id->domain = count == 3 ? parts[0] : 0;
    id->bus = parts[count - 2];
    id->device = parts[count - 1];
    return id->bus <= 0xff && id->device <= 0x1f;
}

static bool same_bus_id(const struct sim_bus_id *a, const struct sim_bus_id *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    return text;
}

/* What a GPU is where the description does not say. */
static void set_defaults(struct sim_gpu *gpu)
{
    strcpy(gpu->vbios, "simulated");
    gpu->persistence = 1;
    gpu->ecc = 1;
}

/* A GPU starts as what [gpu *] said; its own keys then replace those, or add to a repeatable one. */
static void start_gpu(struct parser *parser, struct sim_gpu *gpu, unsigned index)
{
    *gpu = parser->template;
    gpu->minor = index;
    parser->had_gpu[index] = true;
    parser->gpu_lines[index] = parser->line;
    parser->gpus++;
}

static bool open_gpu(struct parser *parser, const char *name)
{
    parser->section = SIM_SECTION_GPU;
    if (strcmp(name, "*") == 0) {
        if (parser->had_template || parser->gpus > 0)
            return sim_fail(parser->error, parser->line,
                            "[gpu *] may stand once, before the first [gpu N]");
        parser->had_template = true;
        parser->target = &parser->template;
        return true;
    }
    char *end = NULL;
    unsigned long index = strtoul(name, &end, 10);
    if (!isdigit((unsigned char)*name) || *end != '\0' || index >= SIM_MAX_GPUS)
        return sim_fail(parser->error, parser->line, "[gpu %.20s]: expected * or 0 to %d", name,
                        SIM_MAX_GPUS - 1);
    if (parser->had_gpu[index])
        return sim_fail(parser->error, parser->line, "[gpu %lu] stands twice", index);
    start_gpu(parser, &parser->system->gpus[index], (unsigned)index);
    parser->target = &parser->system->gpus[index];
    return true;
}

static bool open_switch(struct parser *parser, const char *name)
{
    char *end = NULL;
    unsigned long index = strtoul(name, &end, 10);
    if (!isdigit((unsigned char)*name) || *end != '\0' || index != parser->switches ||
        index >= SIM_MAX_SWITCHES)
        return sim_fail(parser->error, parser->line,
                        "[switch %.20s]: expected %u (switches are numbered in order, at most %d)",
                        name, parser->switches, SIM_MAX_SWITCHES);
    parser->section = SIM_SECTION_SWITCH;
    parser->target = &parser->system->switches[parser->switches++];
    return true;
}

static bool open_link(struct parser *parser, const char *name)
{
    char *end = NULL;
    unsigned long first = strtoul(name, &end, 10), second = SIM_MAX_GPUS;
    if (isdigit((unsigned char)*name) && *end == ' ' && isdigit((unsigned char)end[1]))
        second = strtoul(end + 1, &end, 10);
    if (*end != '\0' || first >= SIM_MAX_GPUS || second >= SIM_MAX_GPUS || first == second)
        return sim_fail(parser->error, parser->line,
                        "[link %.20s]: expected the numbers of two GPUs such as [link 0 1]", name);
    if (parser->had_pair[first][second])
        return sim_fail(parser->error, parser->line, "the link of GPUs %lu and %lu stands twice",
                        first, second);
    parser->had_pair[first][second] = parser->had_pair[second][first] = true;
    parser->link_ends[0] = (unsigned)first;
    parser->link_ends[1] = (unsigned)second;
    memset(&parser->link, 0, sizeof(parser->link));
    parser->section = SIM_SECTION_LINK;
    parser->target = &parser->link;
    return true;
}

static bool open_section(struct parser *parser, const char *header)
{
    memset(parser->seen, 0, sizeof(parser->seen));
    parser->in_section = true;
    parser->section_line = parser->line;
    if (strcmp(header, "system") == 0) {
        if (parser->had_system)
            return sim_fail(parser->error, parser->line, "[system] stands twice");
        parser->had_system = true;
        parser->section = SIM_SECTION_SYSTEM;
        parser->target = parser->system;
        return true;
    }
    if (!parser->had_system)
        return sim_fail(parser->error, parser->line, "[system] must be the first section");
    if (strncmp(header, "gpu ", 4) == 0)
        return open_gpu(parser, header + 4);
    if (strncmp(header, "switch ", 7) == 0)
        return open_switch(parser, header + 7);
    if (strncmp(header, "link ", 5) == 0)
        return open_link(parser, header + 5);
    return sim_fail(parser->error, parser->line,
                    "unknown section [%.40s]: expected system, gpu N, gpu *, switch N or link A B",
                    header);
}

static bool has(const struct parser *parser, const char *name)
{
    const struct sim_key *keys = sim_keys(parser->section);
    for (unsigned i = 0; keys[i].name; i++)
        if (strcmp(keys[i].name, name) == 0)
            return parser->seen[i];
    return false;
}

static bool require(struct parser *parser, const char *name, bool given)
{
    if (given)
        return true;
    return sim_fail(parser->error, parser->section_line, "the section that starts here has no %s",
                    name);
}

/* Called where a section ends: at the next header and at the end of the file. */
static bool close_section(struct parser *parser)
{
    if (!parser->in_section)
        return true;
    switch (parser->section) {
    case SIM_SECTION_SYSTEM:
        if (!require(parser, "version", has(parser, "version")) ||
            !require(parser, "gpus", has(parser, "gpus")) ||
            !require(parser, "driver", has(parser, "driver")))
            return false;
        if (parser->system->version != SIM_FORMAT_VERSION)
            return sim_fail(parser->error, parser->section_line,
                            "version = %llu: this library reads version %d",
                            (unsigned long long)parser->system->version, SIM_FORMAT_VERSION);
        return true;
    case SIM_SECTION_GPU: {
        const struct sim_gpu *gpu = parser->target;
        if (gpu == &parser->template)
            return true;
        return require(parser, "name", gpu->name[0] != '\0') &&
               require(parser, "uuid", gpu->uuid[0] != '\0') &&
               require(parser, "pci_bus_id", has(parser, "pci_bus_id")) &&
               require(parser, "memory_mib", gpu->memory_mib > 0);
    }
    case SIM_SECTION_SWITCH:
        return require(parser, "pci_bus_id", has(parser, "pci_bus_id"));
    case SIM_SECTION_LINK: {
        unsigned a = parser->link_ends[0], b = parser->link_ends[1];
        struct sim_system *system = parser->system;
        system->path[a][b] = system->path[b][a] = (uint8_t)parser->link.path;
        system->direct_nvlinks[a][b] = system->direct_nvlinks[b][a] = (uint8_t)parser->link.nvlinks;
        return true;
    }
    }
    return true;
}

static bool read_key(struct parser *parser, char *line)
{
    char *equals = strchr(line, '=');
    if (!equals)
        return sim_fail(parser->error, parser->line, "expected KEY = VALUE or [SECTION], seen %.60s",
                        line);
    if (!parser->in_section)
        return sim_fail(parser->error, parser->line, "a key before the first section");
    *equals = '\0';
    const char *name = trim(line), *value = trim(equals + 1);
    const struct sim_key *keys = sim_keys(parser->section);
    for (unsigned i = 0; keys[i].name; i++) {
        if (strcmp(keys[i].name, name) != 0)
            continue;
        if (parser->seen[i] && !keys[i].repeatable)
            return sim_fail(parser->error, parser->line, "%s stands twice in this section", name);
        parser->seen[i] = true;
        if (keys[i].read(&keys[i], value, parser->target, parser->error))
            return true;
        parser->error->line = parser->line;
        return false;
    }
    return sim_fail(parser->error, parser->line, "unknown key %.60s", name);
}

static bool read_line(struct parser *parser, char *text)
{
    char *comment = strchr(text, '#');
    if (comment)
        *comment = '\0';
    char *line = trim(text);
    size_t length = strlen(line);
    if (length == 0)
        return true;
    if (line[0] != '[')
        return read_key(parser, line);
    if (line[length - 1] != ']')
        return sim_fail(parser->error, parser->line, "a section header ends with ]");
    line[length - 1] = '\0';
    return close_section(parser) && open_section(parser, trim(line + 1));
}

/* What one GPU must be to the others, once all are read. */
static bool check_gpu(const struct parser *parser, unsigned index)
{
    const struct sim_system *system = parser->system;
    const struct sim_gpu *gpu = &system->gpus[index];
    struct sim_error *error = parser->error;
    unsigned line = parser->gpu_lines[index], direct = 0;
    if (gpu->memory_reserved_mib + gpu->memory_used_mib > gpu->memory_mib)
        return sim_fail(error, line, "GPU %u uses more memory than memory_mib", index);
    for (unsigned other = 0; other < system->gpu_count; other++) {
        const struct sim_gpu *peer = &system->gpus[other];
        direct += system->direct_nvlinks[index][other];
        if (other >= index)
            continue;
        if (strcmp(gpu->uuid, peer->uuid) == 0)
            return sim_fail(error, line, "GPUs %u and %u have the same uuid", other, index);
        if (gpu->serial[0] != '\0' && strcmp(gpu->serial, peer->serial) == 0)
            return sim_fail(error, line, "GPUs %u and %u have the same serial", other, index);
        if (same_bus_id(&gpu->pci_bus_id, &peer->pci_bus_id))
            return sim_fail(error, line, "GPUs %u and %u have the same pci_bus_id", other, index);
        if (gpu->minor == peer->minor)
            return sim_fail(error, line, "GPUs %u and %u have the same minor", other, index);
    }
    if (direct > 0 && system->switch_count > 0)
        return sim_fail(error, line, "GPU %u has both [switch] and direct NVLinks", index);
    if (direct > gpu->nvlinks)
        return sim_fail(error, line, "the [link] sections give GPU %u %u NVLinks, it has %llu",
                        index, direct, (unsigned long long)gpu->nvlinks);
    return true;
}

static bool check_all(struct parser *parser)
{
    struct sim_system *system = parser->system;
    system->switch_count = parser->switches;
    if (!parser->had_system)
        return sim_fail(parser->error, parser->line, "no [system] section");
    if (parser->gpus != system->gpu_count)
        return sim_fail(parser->error, parser->line, "%u [gpu N] sections, [system] says gpus = %llu",
                        parser->gpus, (unsigned long long)system->gpu_count);
    for (unsigned index = 0; index < SIM_MAX_GPUS; index++) {
        if (parser->had_gpu[index] && index >= system->gpu_count)
            return sim_fail(parser->error, parser->gpu_lines[index],
                            "[gpu %u]: GPUs are numbered from 0 without gaps", index);
        for (unsigned other = 0; other < SIM_MAX_GPUS; other++)
            if (parser->had_pair[index][other] && index >= system->gpu_count)
                return sim_fail(parser->error, parser->line, "[link] names GPU %u, there is none",
                                index);
    }
    for (unsigned index = 0; index < system->gpu_count; index++)
        if (!check_gpu(parser, index))
            return false;
    return true;
}

bool sim_parse(const char *text, size_t length, struct sim_system *system, struct sim_error *error)
{
    struct parser *parser = calloc(1, sizeof(*parser));
    if (!parser)
        return sim_fail(error, 0, "out of memory");
    memset(system, 0, sizeof(*system));
    parser->system = system;
    parser->error = error;
    set_defaults(&parser->template);
    bool parsed = true;
    for (size_t at = 0; parsed && at < length;) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t size = newline ? (size_t)(newline - (text + at)) : length - at;
        char line[MAX_LINE];
        parser->line++;
        if (size >= sizeof(line)) {
            parsed = sim_fail(error, parser->line, "a line of more than %d bytes", MAX_LINE - 1);
        } else if (memchr(text + at, '\0', size)) {
            parsed = sim_fail(error, parser->line, "a NUL byte");
        } else {
            memcpy(line, text + at, size);
            line[size] = '\0';
            parsed = read_line(parser, line);
        }
        at += size + 1;
    }
    parsed = parsed && close_section(parser) && check_all(parser);
    free(parser);
    return parsed;
}
