/* What all types here share: each is the hot part of a class in Python, whose methods do the rest on the same state.
 *
 * A class such as `class CTimeline(native.Timeline, RankTimeline)` finds the methods of the C type first. Its
 * attributes are descriptors of the C type, so the methods of the Python class read and write the struct. A C method
 * that meets a rare case, such as an argument by name, calls the method of the Python class that it replaces. */

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
    /* An interned name: Python's cache of methods would keep each new string, 57 bytes a call. */
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *function = interned == NULL ? NULL : PyObject_GetAttr(class, interned);
    Py_XDECREF(interned);
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

/* Read integers from arguments by position; those that are missing keep their value. */
static int read_integers(int64_t *values, Py_ssize_t most, PyObject *const *arguments, Py_ssize_t number)
{
    if (number > most) { PyErr_SetString(PyExc_TypeError, "too many arguments"); return -1; }
    for (Py_ssize_t index = 0; index < number; index++) {
        values[index] = PyLong_AsLongLong(arguments[index]);
        if (values[index] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

/* ---- attributes --------------------------------------------------------------------------------------------- */

/* Return the object at this offset; None if there is none. */
static PyObject *get_object(PyObject *self, void *offset)
{
    PyObject *object = *(PyObject **)((char *)self + (size_t)offset);
    if (object == NULL) Py_RETURN_NONE;
    Py_INCREF(object);
    return object;
}

/* An object that C reads in another form as well, so that a function must set it. */
#define OBJECT(name, type, member, set) {name, get_object, (setter)set, NULL, (void *)offsetof(type, member)}

/* A view of memory. */
typedef struct { PyObject *view; Py_buffer buffer; int64_t *words; } Words;

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

#define WORDS(name, type, member) OBJECT(name, type, member, set_words)

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

/* The functions of a type for the garbage collector. To break a cycle, it clears the members in `OBJECTS` and leaves
 * those in `KEPT`, which a finalizer may still use. */
#define NOTHING(X)
#define VISIT(member) Py_VISIT(self->member);
#define CLEAR(member) Py_CLEAR(self->member);
#define GARBAGE(name, Type, OBJECTS, KEPT)                                     \
    static int name##_traverse(Type *self, visitproc visit, void *arg)         \
    {                                                                          \
        Py_VISIT(Py_TYPE((PyObject *)self));                                   \
        OBJECTS(VISIT) KEPT(VISIT)                                             \
        return 0;                                                              \
    }                                                                          \
    static int name##_clear(Type *self) { OBJECTS(CLEAR) return 0; }

#define FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC)
#define METHOD(name, function) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS, NULL}

#endif
