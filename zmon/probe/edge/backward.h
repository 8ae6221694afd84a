/* The hot part of zmon/probe/hooks/backward.py and forward.py: calls of the autograd engine, and calls of the model. */

#ifndef ZMON_EDGE_BACKWARD_H
#define ZMON_EDGE_BACKWARD_H

#include "reduction.h"

static PyObject *forward_names, *reducers; /* the variables of forward.py; the reducers of all DDP modules */
static PyObject *name_of_marked, *name_of_accumulates, *note_unmarked_pass, *note_loss;

/* Return the phase to resume: the call of a model marks only the time until its backward pass. */
static int phase_after_backward(int phase_before)
{
    PyObject *marked = PyDict_GetItemWithError(forward_names, name_of_marked);
    if (marked != Py_True) return phase_before;
    PyDict_SetItem(forward_names, name_of_marked, Py_False);
    return phase_before == layout.forward ? (int)layout.other : phase_before;
}

/* Return 1 if C can count what DDP modules reduce: there is none, or only one that always reduces the same. */
static int counts_reductions(void)
{
    Py_ssize_t number = PyList_Size(reducers);
    return number == 0 || (number == 1 && is_set(reduction) && PyObject_TypeCheck(reduction, reduction_type));
}

/* Return 1 if the pass accumulates gradients, as those of training do, so that its roots are losses. */
static int accumulates(PyObject *const *arguments, size_t number, PyObject *keywords)
{
    Py_ssize_t given = PyVectorcall_NARGS(number), num_keywords = keywords == NULL ? 0 : PyTuple_Size(keywords);
    for (Py_ssize_t keyword = 0; given > 0 && keyword < num_keywords; keyword++)
        if (PyTuple_GetItem(keywords, keyword) == name_of_accumulates) return arguments[given + keyword] == Py_True;
    return 0;
}

static PyObject *call_engine(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (timeline == NULL || timeline->activity != layout.train || timeline->autograd_depth != 0
        || !counts_reductions() || !PyObject_TypeCheck(timeline->ledger->samples, samples_type))
        return call_behind(self, arguments, number, keywords);
    int64_t begin = read_clock(timeline);
    Reduction *measured = PyList_Size(reducers) == 0 ? NULL : (Reduction *)reduction;
    Py_XINCREF((PyObject *)measured); /* another thread may withdraw it whenever the GIL is released */
    if (measured != NULL && !begin_reduction(measured)) {
        Py_DECREF((PyObject *)measured);
        return call_behind(self, arguments, number, keywords);
    }
    int phase_before = timeline->phase, is_explicit = timeline->explicit_phases;
    if (!is_explicit) set_phase(timeline, (int)layout.backward);
    Py_INCREF(timeline);
    if (accumulates(arguments, number, keywords)) {
        PyObject *nothing = PyObject_CallFunctionObjArgs(note_loss, (PyObject *)timeline, arguments[0], NULL);
        if (nothing == NULL) complain();
        Py_XDECREF(nothing);
    }
    timeline->autograd_depth++;
    spend(timeline, begin);
    PyObject *answer = call_original(self, arguments, number, keywords);
    Error error = put_aside();
    begin = read_clock(timeline);
    if (measured != NULL) end_reduction(measured, timeline);
    Py_XDECREF((PyObject *)measured);
    timeline->autograd_depth--;
    if (!is_explicit) set_phase(timeline, phase_after_backward(phase_before));
    ((Samples *)timeline->ledger->samples)->backwards++;
    spend(timeline, begin);
    if (phase_before == layout.other && !is_explicit) {
        PyObject *nothing = PyObject_CallNoArgs(note_unmarked_pass);
        if (nothing == NULL) complain();
        Py_XDECREF(nothing);
    }
    Py_DECREF(timeline);
    restore(error);
    return answer;
}

/* ---- the call of the model ----------------------------------------------------------------------------------- */

static PyObject *tensor_type, *is_grad_enabled, *compiler_names, *name_of_compiling;
static PyObject *name_of_unmarked, *name_of_training, *name_of_shape;

/* Return 1 and the samples of a batch if the first argument is a tensor that has a first dimension. */
static int read_samples(PyObject *first, int64_t *samples)
{
    if (first == NULL || !PyObject_TypeCheck(first, (PyTypeObject *)tensor_type)) return 0;
    PyObject *shape = PyObject_GetAttr(first, name_of_shape);
    int has_size = shape != NULL && PyTuple_Check(shape) && PyTuple_Size(shape) > 0;
    *samples = has_size ? PyLong_AsLongLong(PyTuple_GetItem(shape, 0)) : -1;
    Py_XDECREF(shape);
    PyErr_Clear();
    return *samples >= 0;
}

/* Return 1 if the model trains, and the last search for a model has found it. */
static int trains(PyObject *called_model)
{
    PyObject *unmarked = PyDict_GetItemWithError(forward_names, name_of_unmarked);
    PyObject *training = PyObject_GetAttr(called_model, name_of_training);
    PyObject *has_gradients = PyObject_CallNoArgs(is_grad_enabled);
    int answer = unmarked != NULL && PyLong_AsLong(unmarked) == -1 && training == Py_True && has_gradients == Py_True;
    Py_XDECREF(training);
    Py_XDECREF(has_gradients);
    PyErr_Clear();
    return answer;
}

/* Note that the model is called with this first argument, NULL if it has none by position. Return 0 if Python must. */
static int note_call(PyObject *called_model, PyObject *first)
{
    int is_watched;
    int64_t samples = 0;
    Timeline *timeline = hot_timeline(&is_watched);
    if (timeline == NULL
        || PyDict_GetItemWithError(compiler_names, name_of_compiling) == Py_True /* torch.export */
        || timeline->activity != layout.train || timeline->autograd_depth != 0
        || !PyObject_TypeCheck(timeline->ledger->samples, samples_type)) return 0;
    int64_t begin = read_clock(timeline);
    Samples *counter = (Samples *)timeline->ledger->samples;
    int counts = counter->source == model || (counter->source != declared && counter->source != loader);
    if (!trains(called_model) || (counts && !read_samples(first, &samples))) return 0;
    if (timeline->phase == layout.other && !timeline->explicit_phases) {
        set_phase(timeline, (int)layout.forward);
        PyDict_SetItem(forward_names, name_of_marked, Py_True);
    }
    if (counts) call_model(counter, (int64_t)(intptr_t)called_model, samples);
    spend(timeline, begin);
    return 1;
}

/* A hook on a module, which gets the module and its arguments as a tuple and a dictionary. */
static PyObject *call_of_model(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    int is_hook = PyVectorcall_NARGS(number) == 3 && PyTuple_Check(arguments[1]);
    PyObject *first = is_hook && PyTuple_Size(arguments[1]) > 0 ? PyTuple_GetItem(arguments[1], 0) : NULL;
    if (!is_hook || !note_call(arguments[0], first)) return call_behind(self, arguments, number, keywords);
    Py_RETURN_NONE;
}

/* The `forward` of a class of modules. */
static PyObject *call_forward(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    Py_ssize_t given = PyVectorcall_NARGS(number);
    if (given == 0 || !note_call(arguments[0], given > 1 ? arguments[1] : NULL))
        return call_behind(self, arguments, number, keywords);
    return call_original(self, arguments, number, keywords);
}

#endif
