/* The black box as the C edge needs it: the numbers of its layout, clocks, its checksum, its live words and cells.
 *
 * No number of the layout is written here. Python passes all of them by name (classes.py), from zmon/box/layout.py and
 * versions.py, which derive them from the table of measures (zmon/schema/measures.py). Offsets and sizes are in bytes.
 * Positions in a boundary and among the live words count words of 8 bytes. */

#ifndef ZMON_EDGE_BOX_H
#define ZMON_EDGE_BOX_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* The numbers of the layout that the C edge uses, by the names that classes.py gives them. */
#define NUMBERS(X) \
    X(sequence) X(entered) X(before) X(none) X(max_groups) X(state_key) X(state_prime) \
    X(label_shift) X(label_group_shift) X(label_sequence_shift) X(sequences) X(max_bytes) \
    X(phase_shift) X(op_shift) X(group_shift) \
    X(place_offset) X(place_slot) X(place_bytes) \
    X(ring) X(ring_capacity) X(ring_slot) X(boundary_bytes) \
    X(number) X(kind) X(step_number) X(time) X(steps) X(step_ns) X(last_step) X(overhead) \
    X(step_amounts) X(amounts) X(num_amounts) X(num_declared) X(reported) X(values) X(num_values) \
    X(times) X(num_times) X(counts) X(exposed) X(inflight) X(sent) X(received) \
    X(samples) X(flops) X(unknown) X(max_amount) \
    X(is_step) X(memory_interval_ns) X(interface_interval_ns) \
    X(other) X(forward) X(backward) X(optimizer) X(num_phases) X(num_ops) X(train) X(send) X(recv)

#define DECLARE(name) int64_t name;
static struct { NUMBERS(DECLARE) } layout;

/* Read the numbers of the layout from a dictionary; raises KeyError if one is missing. */
static int read_numbers(PyObject *numbers)
{
#define READ(name) {                                                                  \
        PyObject *value = PyMapping_GetItemString(numbers, #name);                    \
        if (value == NULL) return -1;                                                 \
        layout.name = PyLong_AsLongLong(value);                                       \
        Py_DECREF(value);                                                             \
        if (layout.name == -1 && PyErr_Occurred()) return -1;                         \
    }
    NUMBERS(READ)
    return 0;
}

/* Sums of bytes and nanoseconds wrap around instead of being undefined; none gets near 63 bits. */
static inline int64_t sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Let `slot` refer to `value` instead. */
static void assign(PyObject **slot, PyObject *value)
{
    PyObject *before = *slot;
    Py_XINCREF(value);
    *slot = value;
    Py_XDECREF(before);
}

/* Python must not be called while an error is set. So a front puts the error of the job aside, and restores it. */
typedef struct { PyObject *type, *value, *trace; } Error;
static inline Error put_aside(void) { Error error; PyErr_Fetch(&error.type, &error.value, &error.trace); return error; }
static inline void restore(Error error) { PyErr_Restore(error.type, error.value, error.trace); }
static inline void drop(Error error) { Py_XDECREF(error.type); Py_XDECREF(error.value); Py_XDECREF(error.trace); }
static Error put_aside_object(void) /* the same, with an exception object as its value */
{
    Error error = put_aside();
    PyErr_NormalizeException(&error.type, &error.value, &error.trace);
    return error;
}

/* ---- clocks ---------------------------------------------------------------------------------------------- */

typedef struct Clock {
    int64_t (*read)(struct Clock *);
    PyObject *function; /* what Python passed: the clock of the host, or one that a test has written */
    int64_t last;
} Clock;

static int64_t host_time(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t monotonic(Clock *clock) { return host_time(CLOCK_MONOTONIC); }
static int64_t unix_time(Clock *clock) { return host_time(CLOCK_REALTIME); }

/* Read a clock in Python; one that raises has stopped. */
static int64_t replayed(Clock *clock)
{
    Error error = put_aside();
    PyObject *answer = PyObject_CallNoArgs(clock->function);
    int64_t now = answer == NULL ? -1 : PyLong_AsLongLong(answer);
    Py_XDECREF(answer);
    if (PyErr_Occurred()) PyErr_WriteUnraisable(clock->function);
    else clock->last = now;
    restore(error);
    return clock->last;
}

/* Use the host's clock if `function` is time.<name> itself, and not one that a test has put in its place. */
static int set_clock(Clock *clock, PyObject *function, const char *name, int64_t (*native)(Clock *))
{
    PyObject *module = PyImport_ImportModule("time");
    PyObject *host = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    if (host == NULL) return -1;
    clock->read = host == function && PyCFunction_Check(function) ? native : replayed;
    Py_DECREF(host);
    assign(&clock->function, function);
    return 0;
}

/* ---- the checksum of zlib --------------------------------------------------------------------------------- */

static uint32_t crc_tables[8][256]; /* eight bytes at a time ("slicing-by-8") */

static void fill_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = crc_tables[table - 1][byte];
            crc_tables[table][byte] = crc >> 8 ^ crc_tables[0][crc & 255];
        }
}

/* Return the same as zlib.crc32(data, seed); `size` is a multiple of 8. */
static uint32_t checksum(const char *data, int64_t size, uint32_t seed)
{
    uint64_t word, crc = ~seed;
    for (int64_t begin = 0; begin < size; begin += 8) {
        memcpy(&word, data + begin, 8);
        word ^= crc;
        crc = crc_tables[7][word & 255] ^ crc_tables[6][word >> 8 & 255] ^ crc_tables[5][word >> 16 & 255]
            ^ crc_tables[4][word >> 24 & 255] ^ crc_tables[3][word >> 32 & 255] ^ crc_tables[2][word >> 40 & 255]
            ^ crc_tables[1][word >> 48 & 255] ^ crc_tables[0][word >> 56];
    }
    return ~(uint32_t)crc;
}

/* ---- what is mapped --------------------------------------------------------------------------------------- */

typedef struct { Py_buffer buffer; char *map; uint32_t seed; } Box;

/* Map the box of a BoxWriter; it stays mapped until `close_box`. */
static int open_box(Box *box, PyObject *writer)
{
    PyObject *view = PyObject_GetAttrString(writer, "view");
    PyObject *seed = view == NULL ? NULL : PyObject_GetAttrString(writer, "seed");
    int failed = seed == NULL || PyObject_GetBuffer(view, &box->buffer, PyBUF_WRITABLE) < 0;
    if (!failed) {
        box->map = box->buffer.buf;
        box->seed = (uint32_t)PyLong_AsUnsignedLong(seed);
    }
    Py_XDECREF(view);
    Py_XDECREF(seed);
    return failed || PyErr_Occurred() ? -1 : 0;
}

static void close_box(Box *box)
{
    if (box->map != NULL) PyBuffer_Release(&box->buffer);
    box->map = NULL;
}

#ifdef ZMON_RECORD_STORES
#define MAX_STORES 100000
static int64_t stores[MAX_STORES], num_stores;
#endif

/* Store one live word; readers see the words in the order in which they are stored. */
static inline void store(int64_t *live, int64_t index, int64_t value)
{
#ifdef ZMON_RECORD_STORES /* a build for tests, which compare the order with that of Python */
    if (num_stores < MAX_STORES) stores[num_stores++] = index;
#endif
    __atomic_store_n(&live[index], value, __ATOMIC_RELEASE);
}

/* Store a number and its complement. */
static inline void store_number(int64_t *live, int64_t index, int64_t value)
{
    store(live, index, value);
    store(live, index + 1, ~value);
}

static void store_checksum(Box *box, char *start, int64_t size)
{
    uint32_t crc = checksum(start, size, box->seed);
    memcpy(start + size, &crc, sizeof crc);
}

/* Return the older of the two slots of a cell, with its counter advanced; the caller fills in the values. */
static int64_t *next_slot(Box *box, int64_t offset, int64_t slot_size)
{
    int64_t *slots[2] = {(int64_t *)(box->map + offset), (int64_t *)(box->map + offset + slot_size)};
    int64_t counter = (slots[0][0] > slots[1][0] ? slots[0][0] : slots[1][0]) + 1;
    int64_t *slot = slots[counter & 1];
    slot[0] = counter;
    return slot;
}

/* Copy a boundary into the ring; its own number gives it its place. */
static void write_boundary(Box *box, const int64_t *image)
{
    char *start = box->map + layout.ring + image[layout.number] % layout.ring_capacity * layout.ring_slot;
    memcpy(start, image, (size_t)layout.boundary_bytes);
    store_checksum(box, start, layout.boundary_bytes);
}

#endif
