/* The hot part of zmon/probe/rank.py: the timeline of a rank. All of this runs in the rank's own thread and without a
 * device; other threads and device events are left to the Python class. */

#ifndef ZMON_EDGE_TIMELINE_H
#define ZMON_EDGE_TIMELINE_H

#include "ledger.h"

static PyObject *python_timeline; /* the class in Python */

typedef struct {
    PyObject_HEAD
    Clock clock;
    Words live;
    Ledger *ledger;
    PyObject *device, *queued_ops;
    int64_t *times, *counts;
    int64_t since, activity_since, step_since, step, entered, overhead_ns;
    unsigned long thread;
    int phase, op, slot, activity, autograd_depth;
    char in_op, step_pending, explicit_steps, explicit_phases, explicit_activity;
} Timeline; /* the attributes of RankTimeline (rank.py) */

static PyTypeObject *timeline_type;

#define TIMELINE_OBJECTS(X) X(device) X(queued_ops)
#define TIMELINE_KEPT(X) X(clock.function) X(ledger)
GARBAGE(timeline, Timeline, TIMELINE_OBJECTS, TIMELINE_KEPT)

static int timeline_end(Timeline *self)
{
    timeline_clear(self);
    drop_words(&self->live);
    TIMELINE_KEPT(CLEAR)
    return 0;
}

static void timeline_free(PyObject *self) { free_object(self, (inquiry)timeline_end); }

/* ---- the box ------------------------------------------------------------------------------------------------- */

static inline int64_t read_clock(Timeline *self) { return self->clock.read(&self->clock); }
static inline int is_own_thread(Timeline *self) { return self->thread == PyThread_get_thread_ident(); }
static inline int is_hot(Timeline *self) { return is_own_thread(self) && !is_set(self->device); }

/* Count the time since `begin` as overhead of the probe. */
static inline void spend(Timeline *self, int64_t begin) { self->overhead_ns += read_clock(self) - begin; }

/* Write since when the rank is in a state: two words that check each other, in the slot that is not the newest. */
static void write_state(Timeline *self, int64_t op, int64_t group)
{
    int64_t state = self->activity | (int64_t)self->phase << layout.phase_shift;
    state |= op << layout.op_shift | group << layout.group_shift;
    self->slot = 2 - self->slot;
    store(self->live.words, self->slot, self->since);
    store(self->live.words, self->slot + 1, layout.state_key + layout.state_prime * state - self->since);
}

static void write_place(Timeline *self)
{
    Box *box = &self->ledger->box;
    int64_t *slot = next_slot(box, layout.place_offset, layout.place_slot);
    slot[1] = self->ledger->image.words[layout.number];
    slot[2] = self->activity_since;
    slot[3] = self->step_since;
    slot[4] = self->step;
    store_checksum(box, (char *)slot, layout.place_bytes);
}

/* Add the time since the last change to a part of the step, and begin the next part now. */
static inline void end_part(Timeline *self, int64_t part, int64_t now)
{
    self->times[part] = sum(self->times[part], now - self->since);
    self->since = now;
}

/* ---- phases -------------------------------------------------------------------------------------------------- */

static void set_phase(Timeline *self, int phase)
{
    if (self->in_op) { /* takes effect when the rank leaves the op */
        self->phase = phase;
        return;
    }
    end_part(self, self->phase, read_clock(self));
    self->phase = phase;
    write_state(self, layout.none, layout.none);
}

static PyObject *timeline_phase(Timeline *self, PyObject *number)
{
    if (!is_own_thread(self)) Py_RETURN_NONE; /* a prefetching thread, which is not part of the rank's timeline */
    if (is_set(self->device)) return call_python(python_timeline, "phase", (PyObject *)self, &number, 1, NULL);
    long phase = PyLong_AsLong(number);
    if (phase == -1 && PyErr_Occurred()) return NULL;
    if (phase < 0 || phase >= layout.num_phases) return PyErr_Format(PyExc_IndexError, "there is no phase %ld", phase);
    set_phase(self, (int)phase);
    Py_RETURN_NONE;
}

#endif
