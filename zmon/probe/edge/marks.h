/* The hot part of zmon/probe/__init__.py and of zmon/probe/hooks/steps.py: a step and its phases. */

#ifndef ZMON_EDGE_MARKS_H
#define ZMON_EDGE_MARKS_H

#include "front.h"

static PyObject *phase_numbers;              /* the number of each phase by its name */
static PyObject *python_step;                /* the class of the context `with zmon.step():` in Python */
static PyObject *running_optimizers, *rounds; /* of steps.py: optimizers in `step`, and the order of several */
static PyObject *name_of_single, *name_of_dict, *name_of_found_inf;

/* ---- zmon.phase, zmon.work, zmon.step ------------------------------------------------------------------------ */

static PyObject *call_phase(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (keywords == NULL && PyVectorcall_NARGS(number) == 1 && !is_watched) Py_RETURN_NONE;
    if (timeline == NULL || keywords != NULL || PyVectorcall_NARGS(number) != 1 || !PyUnicode_Check(arguments[0]))
        return call_behind(self, arguments, number, keywords);
    int64_t begin = read_clock(timeline);
    PyObject *phase = PyDict_GetItemWithError(phase_numbers, arguments[0]);
    if (phase == NULL) return call_behind(self, arguments, number, keywords);
    set_phase(timeline, (int)PyLong_AsLong(phase));
    timeline->explicit_phases = 1;
    spend(timeline, begin);
    Py_RETURN_NONE;
}

static PyObject *call_work(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    PyObject *values[MAX_PARAMETERS];
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (timeline == NULL || !bind_arguments((Front *)self, arguments, PyVectorcall_NARGS(number), keywords, values))
        return call_behind(self, arguments, number, keywords);
    int64_t begin = read_clock(timeline);
    PyObject *dtype = values[layout.num_declared]; /* the parameter behind the amounts */
    int is_new_dtype = is_set(values[layout.flops]) && (!is_set(dtype) || dtype != timeline->ledger->declared_dtype);
    if (is_new_dtype || !add_work(timeline->ledger, values, layout.num_declared))
        return call_behind(self, arguments, number, keywords);
    spend(timeline, begin);
    Py_RETURN_NONE;
}

typedef struct { PyObject_HEAD PyObject *number; } Step;

static PyTypeObject *step_type;

static PyObject *step_enter(Step *self, PyObject *unused)
{
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (!is_watched) Py_RETURN_NONE;
    if (timeline == NULL || self->number == NULL || !can_begin_step(timeline, self->number))
        return call_python(python_step, "__enter__", (PyObject *)self, NULL, 0, NULL);
    int64_t begin = read_clock(timeline);
    timeline->explicit_steps = 1;
    begin_step(timeline);
    spend(timeline, begin);
    Py_RETURN_NONE;
}

static PyObject *step_exit(Step *self, PyObject *const *arguments, Py_ssize_t number)
{
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (!is_watched) Py_RETURN_NONE;
    int has_failed = number > 0 && arguments[0] != Py_None;
    if (has_failed || timeline == NULL || !can_end_step(timeline))
        return call_python(python_step, "__exit__", (PyObject *)self, arguments, number, NULL);
    int64_t begin = read_clock(timeline);
    if (end_step(timeline) < 0) complain();
    spend(timeline, begin);
    Py_RETURN_NONE;
}

#define STEP_OBJECTS(X) X(number)
GARBAGE(step, Step, STEP_OBJECTS, NOTHING)
static void step_free(PyObject *self) { free_object(self, (inquiry)step_clear); }

static PyMemberDef step_members[] = {
    {"number", T_OBJECT, offsetof(Step, number), 0, NULL}, {NULL, 0, 0, 0, NULL},
};
static PyMethodDef step_methods[] = {
    {"__enter__", (PyCFunction)step_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))step_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot step_slots[] = {
    {Py_tp_traverse, step_traverse}, {Py_tp_clear, step_clear}, {Py_tp_dealloc, step_free},
    {Py_tp_members, step_members}, {Py_tp_methods, step_methods}, {0, NULL},
};
static PyType_Spec step_spec = {"zmon.probe.edge.native.Step", sizeof(Step), 0, FLAGS, step_slots};

/* `zmon.step(number)`: there is one context, the partner of this front; it gets the number. */
static PyObject *call_step(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    Step *context = (Step *)((Front *)self)->partner;
    Py_ssize_t given = PyVectorcall_NARGS(number);
    if (keywords != NULL || given > 1) return call_behind(self, arguments, number, keywords);
    assign(&context->number, given ? arguments[0] : Py_None);
    Py_INCREF(context);
    return (PyObject *)context;
}

/* ---- the update by an optimizer ------------------------------------------------------------------------------ */

/* Return 1 if this is the only optimizer of the job, so that its update ends the step. */
static int is_single(PyObject *optimizer)
{
    PyObject *single = PyObject_GetAttr(rounds, name_of_single);
    void *known = single == NULL ? NULL : PyLong_AsVoidPtr(single);
    Py_XDECREF(single);
    if (PyErr_Occurred()) PyErr_Clear();
    return known == optimizer;
}

/* Return 1 if the scaler of gradients may have made the optimizer skip its update. */
static int may_be_skipped(PyObject *optimizer)
{
    PyObject *names = PyObject_GetAttr(optimizer, name_of_dict);
    int may_skip = names == NULL || !PyDict_Check(names) || PyDict_GetItemWithError(names, name_of_found_inf) != NULL;
    Py_XDECREF(names);
    if (PyErr_Occurred()) PyErr_Clear();
    return may_skip;
}

/* Return the timeline if the job trains with a single optimizer and marks no steps itself. */
static Timeline *timeline_of_update(PyObject *optimizer, Py_ssize_t running)
{
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    int is_simple = timeline != NULL && timeline->activity == layout.train && PyList_Size(running_optimizers) == running
        && (timeline->explicit_steps || (is_single(optimizer) && !timeline->step_pending));
    return is_simple ? timeline : NULL;
}

static PyObject *call_update_begin(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    Timeline *timeline = PyVectorcall_NARGS(number) > 0 ? timeline_of_update(arguments[0], 0) : NULL;
    if (timeline == NULL) return call_behind(self, arguments, number, keywords);
    int64_t begin = read_clock(timeline);
    PyObject *id = PyLong_FromVoidPtr(arguments[0]);
    if (id == NULL || PyList_Append(running_optimizers, id) < 0) PyErr_Clear();
    Py_XDECREF(id);
    if (!timeline->explicit_phases) set_phase(timeline, (int)layout.optimizer);
    spend(timeline, begin);
    Py_RETURN_NONE;
}

static PyObject *call_update_end(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    Timeline *timeline = PyVectorcall_NARGS(number) > 0 ? timeline_of_update(arguments[0], 1) : NULL;
    if (timeline == NULL || PyLong_AsVoidPtr(PyList_GetItem(running_optimizers, 0)) != (void *)arguments[0]
        || !can_end_step(timeline) || may_be_skipped(arguments[0]))
        return call_behind(self, arguments, number, keywords);
    int64_t begin = read_clock(timeline);
    PyList_SetSlice(running_optimizers, 0, 1, NULL);
    if (!timeline->explicit_steps) {
        if (end_step(timeline) < 0) complain();
    } else if (!timeline->explicit_phases) {
        set_phase(timeline, (int)layout.other);
    }
    spend(timeline, begin);
    Py_RETURN_NONE;
}

#endif
