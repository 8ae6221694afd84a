/* The hot part of zmon/probe/hooks/backward.py and ddp.py: one call of the autograd engine, with what one DDP module
 * reduces in it. */

#ifndef ZMON_EDGE_BACKWARD_H
#define ZMON_EDGE_BACKWARD_H

#include "collectives.h"
#include "marks.h"

static PyObject *forward_names, *reducers; /* the variables of forward.py; the reducers of all DDP modules */
static PyObject *name_of_marked, *note_unmarked_pass;

/* Return the phase to resume: the call of a model marks only the time until its backward pass. */
static int phase_after_backward(int phase_before)
{
    PyObject *marked = PyDict_GetItemWithError(forward_names, name_of_marked);
    if (marked != Py_True) return phase_before;
    PyDict_SetItem(forward_names, name_of_marked, Py_False);
    return phase_before == at.forward ? (int)at.other : phase_before;
}

static PyObject *call_engine(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (timeline == NULL || timeline->activity != at.train || timeline->autograd_depth != 0
        || PyList_Size(reducers) != 0 || !PyObject_TypeCheck(timeline->ledger->samples, samples_type))
        return call_behind(self, arguments, number, keywords);
    int64_t begin = read_clock(timeline);
    int phase_before = timeline->phase, is_explicit = timeline->explicit_phases;
    if (!is_explicit) set_phase(timeline, (int)at.backward);
    timeline->autograd_depth++;
    spend(timeline, begin);
    Py_INCREF(timeline);
    PyObject *answer = call_original(self, arguments, number, keywords);
    Error error = put_aside();
    begin = read_clock(timeline);
    timeline->autograd_depth--;
    if (!is_explicit) set_phase(timeline, phase_after_backward(phase_before));
    ((Samples *)timeline->ledger->samples)->backwards++;
    spend(timeline, begin);
    if (phase_before == at.other && !is_explicit) {
        PyObject *nothing = PyObject_CallNoArgs(note_unmarked_pass);
        if (nothing == NULL) PyErr_Clear();
        Py_XDECREF(nothing);
    }
    Py_DECREF(timeline);
    restore(error);
    return answer;
}

#endif
