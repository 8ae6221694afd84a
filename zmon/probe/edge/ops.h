/* The hot part of zmon/probe/rank.py: collectives, which a rank enters, leaves and counts. */

#ifndef ZMON_EDGE_OPS_H
#define ZMON_EDGE_OPS_H

#include "timeline.h"

static inline int has_sequence(int64_t op, int64_t group)
{
    return group != layout.none && op != layout.send && op != layout.recv; /* only two ranks take part in a send */
}

static int is_valid(int64_t op, int64_t group)
{
    if (op >= 0 && op < layout.num_ops && (group == layout.none || (group >= 0 && group < layout.max_groups))) return 1;
    PyErr_SetString(PyExc_IndexError, "there is no such op or group");
    return 0;
}

static inline int64_t sequence_of(Timeline *self, int64_t group)
{
    return self->live.words[layout.sequence + 2 * group];
}

/* Count collectives and their bytes. Return the sequence of the last one, 0 if it has none. */
static int64_t count_ops(Timeline *self, int64_t op, int64_t group, int64_t sent, int64_t received, int64_t count)
{
    int64_t *counts = self->counts;
    counts[op] = sum(counts[op], count);
    counts[layout.sent + op] = sum(counts[layout.sent + op], sent);
    counts[layout.received + op] = sum(counts[layout.received + op], received);
    if (!has_sequence(op, group)) return 0;
    int64_t sequence = sum(sequence_of(self, group), count);
    store_number(self->live.words, layout.sequence + 2 * group, sequence);
    return sequence;
}

/* Enter a collective. `sequence` is that of a collective counted earlier, if `count` is 0; 0: it is unknown. */
static int enter_op(Timeline *self, int64_t op, int64_t group, int64_t sent, int64_t received, int64_t count,
                    int64_t sequence)
{
    int64_t *live = self->live.words, bytes = sum(sent, received);
    if (self->in_op) return 0; /* it is part of another collective */
    if (count) {
        int64_t counted = count_ops(self, op, group, sent, received, count);
        if (has_sequence(op, group)) sequence = counted;
    }
    end_part(self, self->phase, read_clock(self));
    self->op = (int)op;
    self->in_op = 1;
    int64_t label = op | group << layout.label_group_shift;
    if (sequence) label |= ((sequence & (layout.sequences - 1)) | layout.sequences) << layout.label_sequence_shift;
    int64_t entered = (bytes < layout.max_bytes ? bytes : layout.max_bytes) | label << layout.label_shift;
    if (entered != self->entered) { /* else the rank waits for the collective that it issued last */
        store_number(live, layout.before, self->entered);
        store_number(live, layout.entered, entered);
        self->entered = entered;
    }
    write_state(self, op, group);
    return 1;
}

static void leave_op(Timeline *self, int has_issue, int64_t issued, int in_flight)
{
    if (!self->in_op) return; /* the end of a step or activity inside the collective has left it already */
    int64_t now = read_clock(self), began = has_issue ? issued : self->since;
    end_part(self, layout.exposed + self->op, now);
    if (!in_flight) self->times[layout.inflight + self->op] = sum(self->times[layout.inflight + self->op], now - began);
    self->in_op = 0;
    write_state(self, layout.none, layout.none);
}

static PyObject *timeline_enter_op(Timeline *self, PyObject *const *arguments, Py_ssize_t number, PyObject *keywords)
{
    int64_t values[6] = {0, 0, 0, 0, 1, 0};
    if (!is_hot(self) || keywords != NULL)
        return call_python(python_timeline, "enter_op", (PyObject *)self, arguments, number, keywords);
    if (read_integers(values, 6, arguments, number) < 0 || !is_valid(values[0], values[1])) return NULL;
    return PyBool_FromLong(enter_op(self, values[0], values[1], values[2], values[3], values[4], values[5]));
}

static PyObject *timeline_wait_op(Timeline *self, PyObject *const *arguments, Py_ssize_t number, PyObject *keywords)
{
    int64_t values[3] = {0};
    if (!is_hot(self) || keywords != NULL)
        return call_python(python_timeline, "wait_op", (PyObject *)self, arguments, number, keywords);
    if (read_integers(values, 3, arguments, number) < 0 || !is_valid(values[0], values[1])) return NULL;
    int64_t sequence = values[1] == layout.none ? 0 : sequence_of(self, values[1]) + 1;
    return PyBool_FromLong(enter_op(self, values[0], values[1], values[2], 0, 0, sequence));
}

static PyObject *timeline_leave_op(Timeline *self, PyObject *const *arguments, Py_ssize_t number, PyObject *keywords)
{
    if (!is_hot(self) || keywords != NULL)
        return call_python(python_timeline, "leave_op", (PyObject *)self, arguments, number, keywords);
    int has_issue = number > 0 && PyLong_Check(arguments[0]);
    int64_t issued = has_issue ? PyLong_AsLongLong(arguments[0]) : 0;
    int in_flight = number > 1 && PyObject_IsTrue(arguments[1]);
    if (PyErr_Occurred()) return NULL;
    leave_op(self, has_issue, issued, in_flight);
    Py_RETURN_NONE;
}

static PyObject *timeline_count_op(Timeline *self, PyObject *const *arguments, Py_ssize_t number, PyObject *keywords)
{
    int64_t values[5] = {0, 0, 0, 0, 1};
    if (!is_own_thread(self) || keywords != NULL)
        return call_python(python_timeline, "count_op", (PyObject *)self, arguments, number, keywords);
    if (read_integers(values, 5, arguments, number) < 0 || !is_valid(values[0], values[1])) return NULL;
    if (!self->in_op) count_ops(self, values[0], values[1], values[2], values[3], values[4]);
    Py_RETURN_NONE;
}

/* Count collectives that another thread has issued. */
static PyObject *timeline_count(Timeline *self, PyObject *const *arguments, Py_ssize_t number)
{
    int64_t values[5] = {0};
    if (read_integers(values, 5, arguments, number) < 0 || !is_valid(values[0], values[1])) return NULL;
    count_ops(self, values[0], values[1], values[2], values[3], values[4]);
    Py_RETURN_NONE;
}

static PyObject *timeline_issue(Timeline *self, PyObject *unused)
{
    if (is_set(self->device)) return call_python(python_timeline, "issue", (PyObject *)self, NULL, 0, NULL);
    return PyLong_FromLongLong(read_clock(self));
}

#endif
