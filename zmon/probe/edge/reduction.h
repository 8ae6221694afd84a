/* The hot part of zmon/probe/hooks/ddp.py and reducer.py: what one DDP module reduces in a backward pass.
 *
 * A hook on one of the module's parameters queues a callback of zmon. The module queues a callback too, in which it
 * waits. It does so later, when all its gradients are ready. Once all gradients are computed, the callbacks run in the
 * order in which they were queued. So the wait lasts from zmon's callback to the end of the pass. */

#ifndef ZMON_EDGE_REDUCTION_H
#define ZMON_EDGE_REDUCTION_H

#include "collectives.h"

typedef struct {
    PyObject_HEAD
    PyObject *read_sequence, *queue_callback, *count_slowly, *name, *on_computed;
    long long op, group, bytes, buckets;
    int64_t sequence_before, issued_before;
    int64_t sequence, issued; /* when all gradients were computed: the module has begun all its reductions by then */
    char is_running, is_queued; /* the pass runs; `on_computed` is queued */
    char is_read, waits; /* `sequence` and `issued` are read; the rank waits */
} Reduction;

static PyTypeObject *reduction_type;
static PyObject *reduction; /* of the only DDP module; None: there is none, or Python must count what it sends */

#define REDUCTION_OBJECTS(X) X(read_sequence) X(queue_callback) X(count_slowly) X(name) X(on_computed)
GARBAGE(reduction, Reduction, REDUCTION_OBJECTS, NOTHING)

static void reduction_free(PyObject *self) { free_object(self, (inquiry)reduction_clear); }

/* Read the sequence number of the group, which collectives that C++ issues advance too; -1: it is unknown. */
static int64_t native_sequence(Reduction *self)
{
    PyObject *answer = PyObject_CallNoArgs(self->read_sequence);
    int64_t sequence = answer == NULL ? -1 : PyLong_AsLongLong(answer);
    Py_XDECREF(answer);
    if (PyErr_Occurred()) complain();
    return sequence;
}

static int64_t issued_of(Reduction *self)
{
    PyObject *count = PyDict_GetItemWithError(issued_calls, self->name);
    return count == NULL ? 0 : PyLong_AsLongLong(count);
}

/* Read how many collectives the group has issued, and how many of them are counted. It calls torch, which is slow. */
static void read_both(Reduction *self)
{
    self->sequence = native_sequence(self);
    self->issued = issued_of(self);
    self->is_read = 1;
}

/* Begin to count; return 0 if that is not possible. */
static int begin_reduction(Reduction *self)
{
    self->is_queued = self->waits = self->is_read = 0;
    self->sequence_before = native_sequence(self);
    self->issued_before = issued_of(self);
    return self->is_running = self->sequence_before >= 0;
}

static void end_reduction(Reduction *self, Timeline *timeline)
{
    self->is_running = 0;
    if (self->waits) leave_op(timeline, 0, 0, 0);
    if (!self->is_read) read_both(self);
    int64_t hidden = self->sequence - self->sequence_before - (self->issued - self->issued_before);
    if (hidden <= 0) return;
    if (hidden == self->buckets && self->is_queued) {
        count_ops(timeline, self->op, self->group, self->bytes, self->bytes, hidden);
        add_issued(self->name, hidden);
        return;
    }
    PyObject *nothing = PyObject_CallFunction(self->count_slowly, "LLi", (long long)self->sequence_before,
                                              (long long)self->issued_before, (int)self->is_queued);
    if (nothing == NULL) complain();
    Py_XDECREF(nothing);
}

/* Enter the wait of the module; called when all gradients are computed. */
static PyObject *reduction_computed(Reduction *self, PyObject *unused)
{
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (timeline == NULL || !self->is_running) Py_RETURN_NONE;
    int64_t begin = read_clock(timeline);
    read_both(self);
    if (self->sequence > self->sequence_before)
        self->waits = (char)enter_op(timeline, self->op, self->group, 2 * self->bytes, 0, 0,
                                     self->group == layout.none ? 0 : sequence_of(timeline, self->group) + 1);
    spend(timeline, begin);
    Py_RETURN_NONE;
}

/* The hook on a parameter; the front's wrapper in Python does nothing, and is what a compiler traces. */
static PyObject *call_gradient(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    Reduction *measured = (Reduction *)((Front *)self)->partner;
    if (!measured->is_running || measured->is_queued || !is_set(measured->on_computed)) Py_RETURN_NONE;
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (timeline == NULL || timeline->autograd_depth != 1) Py_RETURN_NONE; /* in a checkpoint, or another thread */
    measured->is_queued = 1;
    PyObject *nothing = PyObject_CallFunctionObjArgs(measured->queue_callback, measured->on_computed, NULL);
    if (nothing == NULL) complain();
    Py_XDECREF(nothing);
    Py_RETURN_NONE;
}

#define PART(name, type, member) {name, type, offsetof(Reduction, member), 0, NULL}
static PyMemberDef reduction_members[] = {
    PART("read_sequence", T_OBJECT, read_sequence), PART("queue_callback", T_OBJECT, queue_callback),
    PART("count_slowly", T_OBJECT, count_slowly), PART("name", T_OBJECT, name),
    PART("on_computed", T_OBJECT, on_computed), PART("op", T_LONGLONG, op), PART("group", T_LONGLONG, group),
    PART("num_bytes", T_LONGLONG, bytes), PART("num_buckets", T_LONGLONG, buckets),
    {"is_running", T_BOOL, offsetof(Reduction, is_running), READONLY, NULL}, {NULL, 0, 0, 0, NULL},
};
static PyMethodDef reduction_methods[] = {
    {"computed", (PyCFunction)reduction_computed, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};
static PyType_Slot reduction_slots[] = {
    {Py_tp_traverse, reduction_traverse}, {Py_tp_clear, reduction_clear}, {Py_tp_dealloc, reduction_free},
    {Py_tp_members, reduction_members}, {Py_tp_methods, reduction_methods}, {0, NULL},
};
static PyType_Spec reduction_spec = {"zmon.probe.edge.native.Reduction", sizeof(Reduction), 0, FLAGS, reduction_slots};

#endif
