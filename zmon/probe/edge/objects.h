/* What all types here share: each is the hot part of a class in Python, whose methods do the rest on the same state.
 *
 * A class such as `class CTimeline(edge.Timeline, RankTimeline)` finds the methods of the C type first. Its attributes are
 * descriptors of the C type, so the methods of the Python class read and write the struct. A C method that meets a rare
 * case calls the method of the Python class that it replaces. */

#ifndef ZMON_EDGE_OBJECTS_H
#define ZMON_EDGE_OBJECTS_H

#include "box.h"

#define MAX_ARGUMENTS 12
#define MAX_PARAMETERS 8 /* of a function of the job's, or of torch */

/* Call the method of the Python class, with the arguments of a method here (METH_FASTCALL | METH_KEYWORDS). */
static PyObject *call_python(PyObject *class, const char *name, PyObject *self, PyObject *const *arguments,
                             Py_ssize_t number, PyObject *keywords)
{
    Py_ssize_t total = number + (keywords == NULL ? 0 : PyTuple_Size(keywords));
    PyObject *stack[MAX_ARGUMENTS + 1] = {self};
    if (total > MAX_ARGUMENTS) return PyErr_Format(PyExc_TypeError, "%s() takes fewer arguments", name);
    for (Py_ssize_t index = 0; index < total; index++) stack[index + 1] = arguments[index];
    PyObject *function = PyObject_GetAttrString(class, name);
    if (function == NULL) return NULL;
    PyObject *answer = PyObject_Vectorcall(function, stack, (size_t)number + 1, keywords);
    Py_DECREF(function);
    return answer;
}

/* The same for callers that need no answer. */
static int run_python(PyObject *class, const char *name, PyObject *self, PyObject *const *arguments, Py_ssize_t number)
{
    PyObject *answer = call_python(class, name, self, arguments, number, NULL);
    Py_XDECREF(answer);
    return answer == NULL ? -1 : 0;
}

static inline int is_set(PyObject *attribute) { return attribute != NULL && attribute != Py_None; }

/* ---- arguments ------------------------------------------------------------------------------------------- */

/* Read integers from arguments, by position or by name; those that are missing keep their value. */
static int read_integers(const char *const *names, int64_t *values, Py_ssize_t most, PyObject *const *arguments,
                         Py_ssize_t number, PyObject *keywords)
{
    if (number > most) { PyErr_SetString(PyExc_TypeError, "too many arguments"); return -1; }
    for (Py_ssize_t index = 0; index < number; index++) {
        values[index] = PyLong_AsLongLong(arguments[index]);
        if (values[index] == -1 && PyErr_Occurred()) return -1;
    }
    Py_ssize_t num_keywords = keywords == NULL ? 0 : PyTuple_Size(keywords);
    for (Py_ssize_t index = 0; index < num_keywords; index++) {
        PyObject *keyword = PyTuple_GetItem(keywords, index);
        Py_ssize_t position = 0;
        while (position < most && PyUnicode_CompareWithASCIIString(keyword, names[position]) != 0) position++;
        if (position == most) { PyErr_Format(PyExc_TypeError, "unexpected argument %R", keyword); return -1; }
        values[position] = PyLong_AsLongLong(arguments[number + index]);
        if (values[position] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

/* ---- attributes that are a view of memory ------------------------------------------------------------------ */

typedef struct { PyObject *view; Py_buffer buffer; int64_t *words; } Words;

static PyObject *get_words(PyObject *self, void *offset)
{
    Words *words = (Words *)((char *)self + (size_t)offset);
    PyObject *view = words->view == NULL ? Py_None : words->view;
    Py_INCREF(view);
    return view;
}

static void drop_words(Words *words)
{
    if (words->words != NULL) PyBuffer_Release(&words->buffer);
    words->words = NULL;
    assign(&words->view, NULL);
}

static int set_words(PyObject *self, PyObject *view, void *offset)
{
    Words *words = (Words *)((char *)self + (size_t)offset);
    drop_words(words);
    if (view == NULL || PyObject_GetBuffer(view, &words->buffer, PyBUF_WRITABLE) < 0) return view == NULL ? 0 : -1;
    words->words = words->buffer.buf;
    assign(&words->view, view);
    return 0;
}

#define WORDS(name, type, member) {name, get_words, set_words, NULL, (void *)offsetof(type, member)}

/* ---- types ------------------------------------------------------------------------------------------------ */

/* Free an object of a type that may have subclasses in Python. */
static void free_object(PyObject *self, inquiry clear)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

#define FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC)
#define METHOD(name, function) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS, NULL}

#endif
