/* The hot part of zmon/probe/rank.py: steps, and the type of the timeline. */

#ifndef ZMON_EDGE_RANK_H
#define ZMON_EDGE_RANK_H

#include "ops.h"

/* ---- steps ------------------------------------------------------------------------------------------------- */

/* Count the collectives of other threads, in Python. */
static int count_queued_ops(Timeline *self)
{
    if (self->queued_ops == NULL || PyObject_Size(self->queued_ops) <= 0) return 0;
    return run_python(python_timeline, "_count_queued_ops", (PyObject *)self, NULL, 0);
}

static inline int can_end_step(Timeline *self) { return is_hot(self) && ends_steps(self->ledger); }

/* Write the boundary of the step and begin the next one. */
static int end_step(Timeline *self)
{
    if (self->in_op) leave_op(self, 0, 0, 0);
    int64_t now = read_clock(self), duration = now - self->step_since;
    end_part(self, self->phase, now);
    self->step_pending = 0;
    self->step_since = now;
    self->phase = (int)layout.other;
    if (count_queued_ops(self) < 0) return -1;
    if (end_ledger_step(self->ledger, self->step, now, duration, self->overhead_ns) < 0) return -1;
    self->step++;
    write_place(self);
    write_state(self, layout.none, layout.none);
    return 0;
}

static PyObject *timeline_end_step(Timeline *self, PyObject *unused)
{
    if (!is_own_thread(self)) Py_RETURN_NONE;
    if (!can_end_step(self)) return call_python(python_timeline, "end_step", (PyObject *)self, NULL, 0, NULL);
    if (end_step(self) < 0) return NULL;
    Py_RETURN_NONE;
}

/* Return 1 if a step with this number can begin here: the rank trains, and the number is the expected one. */
static int can_begin_step(Timeline *self, PyObject *number)
{
    if (!is_hot(self) || self->activity != layout.train) return 0;
    if (number == Py_None) return 1;
    if (!PyLong_CheckExact(number)) return 0;
    int64_t value = PyLong_AsLongLong(number);
    if (value == -1 && PyErr_Occurred()) PyErr_Clear();
    return value == self->step;
}

static void begin_step(Timeline *self)
{
    if (self->phase != layout.other) set_phase(self, (int)layout.other);
}

static PyObject *timeline_begin_step(Timeline *self, PyObject *number)
{
    if (!can_begin_step(self, number))
        return call_python(python_timeline, "begin_step", (PyObject *)self, &number, 1, NULL);
    begin_step(self);
    Py_RETURN_NONE;
}

/* ---- the type ------------------------------------------------------------------------------------------------ */

static PyObject *timeline_acts_for_rank(Timeline *self, PyObject *unused)
{
    if (is_own_thread(self)) Py_RETURN_TRUE;
    return call_python(python_timeline, "acts_for_rank", (PyObject *)self, NULL, 0, NULL);
}

static PyObject *timeline_write_state(Timeline *self, PyObject *unused)
{
    write_state(self, layout.none, layout.none);
    Py_RETURN_NONE;
}

static PyObject *timeline_write_place(Timeline *self, PyObject *unused)
{
    write_place(self);
    Py_RETURN_NONE;
}

static int set_host_clock(Timeline *self, PyObject *function, void *unused)
{
    return set_clock(&self->clock, function, "monotonic_ns", monotonic);
}

static int set_ledger(Timeline *self, PyObject *ledger, void *unused)
{
    if (ledger == NULL || !PyObject_TypeCheck(ledger, ledger_type)) {
        PyErr_SetString(PyExc_TypeError, "the timeline needs a ledger of the same edge");
        return -1;
    }
    assign((PyObject **)&self->ledger, ledger);
    self->times = self->ledger->image.words + layout.times;
    self->counts = self->ledger->image.words + layout.counts;
    return 0;
}

static PyGetSetDef timeline_attributes[] = {
    WORDS("_live", Timeline, live),
    OBJECT("_clock", Timeline, clock.function, set_host_clock),
    OBJECT("ledger", Timeline, ledger, set_ledger),
    {NULL, NULL, NULL, NULL, NULL},
};
#define MEMBER(name, type, member) {name, type, offsetof(Timeline, member), 0, NULL}
static PyMemberDef timeline_members[] = {
    MEMBER("device", T_OBJECT, device), MEMBER("_queued_ops", T_OBJECT, queued_ops),
    MEMBER("since", T_LONGLONG, since), MEMBER("_activity_since", T_LONGLONG, activity_since),
    MEMBER("_step_since", T_LONGLONG, step_since), MEMBER("step", T_LONGLONG, step),
    MEMBER("_entered", T_LONGLONG, entered), MEMBER("overhead_ns", T_LONGLONG, overhead_ns),
    MEMBER("_thread", T_ULONG, thread), MEMBER("current_phase", T_INT, phase), MEMBER("_op", T_INT, op),
    MEMBER("_slot", T_INT, slot), MEMBER("activity", T_INT, activity),
    MEMBER("autograd_depth", T_INT, autograd_depth), MEMBER("_in_op", T_BOOL, in_op),
    MEMBER("step_pending", T_BOOL, step_pending), MEMBER("explicit_steps", T_BOOL, explicit_steps),
    MEMBER("explicit_phases", T_BOOL, explicit_phases), MEMBER("explicit_activity", T_BOOL, explicit_activity),
    {NULL, 0, 0, 0, NULL},
};
#define NO_ARGUMENTS(name, function) {name, (PyCFunction)function, METH_NOARGS, NULL}
static PyMethodDef timeline_methods[] = {
    {"phase", (PyCFunction)timeline_phase, METH_O, NULL},
    {"begin_step", (PyCFunction)timeline_begin_step, METH_O, NULL},
    NO_ARGUMENTS("end_step", timeline_end_step), NO_ARGUMENTS("issue", timeline_issue),
    NO_ARGUMENTS("acts_for_rank", timeline_acts_for_rank),
    NO_ARGUMENTS("_write_state", timeline_write_state), NO_ARGUMENTS("_write_place", timeline_write_place),
    METHOD("enter_op", timeline_enter_op), METHOD("wait_op", timeline_wait_op), METHOD("leave_op", timeline_leave_op),
    METHOD("count_op", timeline_count_op),
    {"_count", (PyCFunction)(void (*)(void))timeline_count, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot timeline_slots[] = {
    {Py_tp_traverse, timeline_traverse}, {Py_tp_clear, timeline_clear}, {Py_tp_dealloc, timeline_free},
    {Py_tp_getset, timeline_attributes}, {Py_tp_members, timeline_members}, {Py_tp_methods, timeline_methods},
    {0, NULL},
};
static PyType_Spec timeline_spec = {"zmon.probe.edge.native.Timeline", sizeof(Timeline), 0, FLAGS, timeline_slots};

#endif
