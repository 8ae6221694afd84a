/* libnvidia-ml.so.1 for a host without GPUs: the functions that zmon calls, with answers from a script.
 *
 * The script is the file $ZMON_NVML_SCRIPT, checked for changes in every call. Its lines are `who what answer`.
 * `who` is `driver`, the number of a GPU, or GPU:INSTANCE. Examples:
 *     driver error 9                     every call fails with this code; afterwards nvmlInit must be called again
 *     driver cards 2                     the number of GPUs
 *     driver xids 0:79,1:48              each is delivered once; append new ones
 *     driver nvmlEventSetWait_v2 !15     this function fails with this code
 *     0 lost 1                           every call for this GPU fails with "GPU is lost"
 *     0 nvmlDeviceGetPowerUsage 300000   the answer of this function; !3: it fails with this code
 *     0 nvmlDeviceGetClockInfo.1 1980    the answer for one argument
 *     0 field.82 45                      a field value; 82@4294967295: with a scope other than 0; `type.82 1`: its type
 *     0 pids 7,8                         the processes that use this GPU
 *     0 gpm.5 40                         a metric of GPM, in percent between any two samples; without gpm.5: no GPM
 *     0:1 nvmlDeviceGetUUID MIG-1        MIG instance 1 of GPU 0 exists if it has a UUID
 * All other answers have their defaults. Built with -DOLD, the library lacks what drivers before R510 lack.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SUCCESS, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, TOO_SMALL, TIMEOUT = 10, LOST = 15 };
enum { CARDS = 16, INSTANCES = 7, LINES = 256, FUNCTIONS = 1024 };
enum { XID_EVENT = 8 }; /* nvmlEventTypeXidCriticalError */
enum { TEMPERATURE_VERSION = 0x100000C }; /* version 1 of the struct, and its size */

typedef struct { char name[16]; int registered; } Device;
typedef struct { unsigned field, scope; long long timestamp, latency; unsigned type, code; long long value; } FieldValue;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
typedef struct { Device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned version, sensor; int celsius; } Temperature;
typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { unsigned id; int code; double value; char *names[3]; } GpmMetric;
typedef struct { unsigned version, size; long long *before, *after; GpmMetric metrics[]; } GpmRequest;

static Device devices[CARDS][1 + INSTANCES];
static struct { char who[16], what[64], answer[256]; } lines[LINES];
static struct { char who[16], what[64]; unsigned calls; } counts[FUNCTIONS];
static int num_lines, initialized, delivered;
static char sets[CARDS]; /* event sets differ by their address; only the newest one is valid */
static int num_sets;
static struct stat last_status;

static void read_script(void) {
    const char *path = getenv("ZMON_NVML_SCRIPT");
    struct stat now;
    if (!path || stat(path, &now)) { num_lines = 0; return; }
    if (now.st_ino == last_status.st_ino && now.st_mtim.tv_sec == last_status.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == last_status.st_mtim.tv_nsec && now.st_size == last_status.st_size) return;
    last_status = now;
    FILE *file = fopen(path, "r");
    for (num_lines = 0; file && num_lines < LINES; num_lines++)
        if (fscanf(file, "%15s %63s %255[^\n]", lines[num_lines].who, lines[num_lines].what, lines[num_lines].answer) != 3)
            break;
    if (file) fclose(file);
}

static const char *scripted(const char *who, const char *what) {
    for (int i = 0; i < num_lines; i++)
        if (!strcmp(lines[i].who, who) && !strcmp(lines[i].what, what)) return lines[i].answer;
    return NULL;
}

static long long number(const char *who, const char *what, long long usual) {
    const char *answer = scripted(who, what);
    return answer && *answer != '!' ? atoll(answer) : usual;
}

static int failure(const char *who, const char *what) {
    const char *answer = scripted(who, what);
    return answer && *answer == '!' ? atoi(answer + 1) : SUCCESS;
}

static void count(const char *who, const char *what) {
    int i = 0;
    while (i < FUNCTIONS - 1 && *counts[i].who && (strcmp(counts[i].who, who) || strcmp(counts[i].what, what))) i++;
    snprintf(counts[i].who, sizeof counts[i].who, "%s", who);
    snprintf(counts[i].what, sizeof counts[i].what, "%s", what);
    counts[i].calls++;
}

unsigned calls(const char *who, const char *what) { /* for the tests; without `what`: of all functions together */
    unsigned sum = 0;
    for (int i = 0; i < FUNCTIONS; i++)
        if (!strcmp(counts[i].who, who) && (!what || !strcmp(counts[i].what, what))) sum += counts[i].calls;
    return sum;
}

static int begin(const char *who, const char *what) {
    read_script();
    count(who, what);
    int error = number("driver", "error", 0);
    if (error) { initialized = 0; return error; }
    if (!initialized) return UNINITIALIZED;
    char card[16];
    snprintf(card, sizeof card, "%.*s", (int)strcspn(who, ":"), who);
    if (number(card, "lost", 0)) return LOST;
    return failure(who, what);
}

static Device *device(int card, int instance) {
    Device *it = &devices[card][instance];
    snprintf(it->name, sizeof it->name, instance ? "%d:%d" : "%d", card, instance - 1);
    return it;
}

static int card_of(const Device *it) { return atoi(it->name); }

/* Functions of a device. NUMBER answers with a number, NUMBER_OF has an argument too, and TEXT answers with text. */
#define NUMBER(function, type, usual) \
    int function(Device *it, type *answer) { \
        int error = begin(it->name, #function); \
        *answer = number(it->name, #function, usual); \
        return error; \
    }
#define NUMBER_OF(function, type, usual) \
    int function(Device *it, unsigned argument, type *answer) { \
        char what[64]; \
        snprintf(what, sizeof what, #function ".%u", argument); \
        int error = begin(it->name, what); \
        *answer = number(it->name, what, usual); \
        return error; \
    }
#define TEXT(function, ...) \
    int function(Device *it, char *answer, unsigned size) { \
        int error = begin(it->name, #function); \
        const char *text = scripted(it->name, #function); \
        if (text) snprintf(answer, size, "%s", text); \
        else snprintf(answer, size, __VA_ARGS__); \
        return error; \
    }

int nvmlInitWithFlags(unsigned flags) {
    initialized = 1;
    int error = begin("driver", "nvmlInitWithFlags");
    if (error) initialized = 0;
    return error;
}

int nvmlShutdown(void) {
    int error = begin("driver", "nvmlShutdown");
    initialized = 0;
    num_sets = (num_sets + 1) % CARDS; /* older sets are no longer valid */
    return error;
}

const char *nvmlErrorString(int code) { return "an error of this stub"; }

int nvmlDeviceGetCount_v2(unsigned *answer) {
    int error = begin("driver", "nvmlDeviceGetCount_v2");
    *answer = number("driver", "cards", 1);
    return error;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **answer) {
    *answer = device(index, 0);
    return begin((*answer)->name, "nvmlDeviceGetHandleByIndex_v2");
}

TEXT(nvmlDeviceGetUUID, "GPU-%s", it->name)
TEXT(nvmlDeviceGetName, "NVIDIA H200")

int nvmlDeviceGetPciInfo_v3(Device *it, Pci *answer) {
    memset(answer, 0, sizeof *answer);
    snprintf(answer->bus_id, sizeof answer->bus_id, "00000000:%02X:00.0", 0x3b + card_of(it));
    return begin(it->name, "nvmlDeviceGetPciInfo_v3");
}

int nvmlDeviceGetMemoryInfo(Device *it, unsigned long long answer[3]) { /* total, free, used */
    int error = begin(it->name, "nvmlDeviceGetMemoryInfo");
    answer[0] = 1000;
    answer[2] = number(it->name, "nvmlDeviceGetMemoryInfo", 600);
    answer[1] = answer[0] - answer[2];
    return error;
}

int nvmlDeviceGetUtilizationRates(Device *it, unsigned answer[2]) { /* card, memory; in percent */
    int error = begin(it->name, "nvmlDeviceGetUtilizationRates");
    answer[0] = number(it->name, "nvmlDeviceGetUtilizationRates", 50);
    answer[1] = 10;
    return error;
}

NUMBER(nvmlDeviceGetMinorNumber, unsigned, card_of(it))
NUMBER(nvmlDeviceGetPowerUsage, unsigned, 300000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, 700000)
NUMBER_OF(nvmlDeviceGetTemperature, unsigned, 61)
NUMBER_OF(nvmlDeviceGetClockInfo, unsigned, 1000 + argument)
NUMBER_OF(nvmlDeviceGetMaxClockInfo, unsigned, 2000 + argument)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, 0)

int nvmlEventSetCreate(void **answer) {
    for (int card = 0; card < CARDS; card++) devices[card][0].registered = 0;
    num_sets = (num_sets + 1) % CARDS;
    *answer = &sets[num_sets];
    return begin("driver", "nvmlEventSetCreate");
}

int nvmlEventSetFree(void *set) { return begin("driver", "nvmlEventSetFree"); }

int nvmlDeviceRegisterEvents(Device *it, unsigned long long types, void *set) {
    int error = begin(it->name, "nvmlDeviceRegisterEvents");
    if (set != &sets[num_sets]) return INVALID;
    it->registered = !error && types == XID_EVENT;
    return error;
}

#ifndef OLD
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, 0)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned, INSTANCES)

int nvmlDeviceGetTemperatureV(Device *it, Temperature *answer) {
    int error = begin(it->name, "nvmlDeviceGetTemperatureV");
    answer->celsius = number(it->name, "nvmlDeviceGetTemperatureV", 61);
    return answer->version == TEMPERATURE_VERSION && answer->sensor == 0 ? error : INVALID;
}

int nvmlDeviceGetMigMode(Device *it, unsigned *current, unsigned *pending) {
    int error = begin(it->name, "nvmlDeviceGetMigMode");
    *current = *pending = number(it->name, "nvmlDeviceGetMigMode", 0);
    return error;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *it, unsigned index, Device **answer) {
    *answer = device(card_of(it), 1 + index);
    int error = begin(it->name, "nvmlDeviceGetMigDeviceHandleByIndex");
    return error ? error : scripted((*answer)->name, "nvmlDeviceGetUUID") ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *it, unsigned *size, Process *answer) {
    int error = begin(it->name, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (error) return error;
    unsigned num_pids = 0;
    for (const char *text = scripted(it->name, "pids"); text && *text; num_pids++) {
        char *end;
        unsigned pid = strtoul(text, &end, 10);
        if (num_pids < *size) answer[num_pids].pid = pid;
        text = *end ? end + 1 : NULL;
    }
    error = num_pids > *size ? TOO_SMALL : SUCCESS;
    *size = num_pids;
    return error;
}

int nvmlDeviceGetFieldValues(Device *it, int size, FieldValue *values) {
    int error = begin(it->name, "nvmlDeviceGetFieldValues");
    for (int i = 0; i < size; i++) {
        FieldValue *value = &values[i];
        char name[32], what[64];
        snprintf(name, sizeof name, value->scope ? "%u@%u" : "%u", value->field, value->scope);
        snprintf(what, sizeof what, "field.%s", name);
        count(it->name, what);
        value->code = scripted(it->name, what) ? failure(it->name, what) : NOT_SUPPORTED;
        value->value = number(it->name, what, 0);
        snprintf(what, sizeof what, "type.%s", name);
        value->type = number(it->name, what, 3);
    }
    return error;
}

int nvmlGpmQueryDeviceSupport(Device *it, GpmSupport *answer) {
    int error = begin(it->name, "nvmlGpmQueryDeviceSupport");
    answer->supported = scripted(it->name, "gpm.5") != NULL;
    return answer->version == 1 ? error : INVALID;
}

int nvmlGpmSampleAlloc(long long **answer) {
    *answer = calloc(1, sizeof **answer);
    return begin("driver", "nvmlGpmSampleAlloc");
}

int nvmlGpmSampleGet(Device *it, long long *sample) { /* a sample is the card's number, and 1000 × its own number */
    static int num_samples;
    int error = begin(it->name, "nvmlGpmSampleGet");
    if (!error) *sample = 1000 * ++num_samples + card_of(it);
    return error;
}

int nvmlGpmMetricsGet(GpmRequest *it) {
    int error = begin("driver", "nvmlGpmMetricsGet");
    if (error) return error;
    if (it->version != 1 || !*it->before || *it->before >= *it->after) return INVALID;
    for (unsigned i = 0; i < it->size; i++) {
        char what[64];
        const char *card = device(*it->after % 1000, 0)->name;
        snprintf(what, sizeof what, "gpm.%u", it->metrics[i].id);
        it->metrics[i].code = scripted(card, what) ? failure(card, what) : NOT_SUPPORTED;
        it->metrics[i].value = number(card, what, 0);
    }
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, Event *answer, unsigned milliseconds) {
    int error = begin("driver", "nvmlEventSetWait_v2");
    if (error) return error;
    if (milliseconds || set != &sets[num_sets]) return INVALID; /* zmon must not wait in this call */
    const char *text = scripted("driver", "xids");
    for (int i = 0; text && *text; i++) {
        char *end;
        int card = strtol(text, &end, 10);
        unsigned long long xid = strtoull(end + 1, &end, 10);
        text = *end ? end + 1 : NULL;
        if (i < delivered) continue;
        delivered = i + 1;
        if (!devices[card][0].registered) continue;
        *answer = (Event){device(card, 0), XID_EVENT, xid, -1, -1};
        return SUCCESS;
    }
    return TIMEOUT;
}
#endif
