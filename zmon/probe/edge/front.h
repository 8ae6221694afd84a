/* A front: a C callable before a wrapper in Python, which it calls for whatever is slow or rare.
 *
 * A front looks like a function in Python: it has the attributes and the class of one. So inspect, pickle and copy
 * treat it as that function, and torch's compiler traces that function, which calls the wrapper. A front has no frame,
 * so warnings and tracebacks name the line of the job. */

#ifndef ZMON_EDGE_FRONT_H
#define ZMON_EDGE_FRONT_H

#include "rank.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *python, *original; /* the wrapper in Python, and the function that it wraps; NULL: it wraps none */
    PyObject *shown;             /* the function in Python that the front looks like; it only calls the wrapper */
    PyObject *weak_references;
    PyObject *names;   /* the parameters of a collective or of zmon.work, in order */
    PyObject *partner; /* of a step its context, of a gradient its Reduction, of a wait a function that raises again */
    int64_t op;
    Py_ssize_t required; /* the number of parameters that a call must give */
    Py_ssize_t sent, received, group, is_async; /* indices of parameters; -1: there is none */
} Front;

static PyTypeObject *front_type;
static PyObject *probe_names, *method_type, *name_of_current; /* zmon.probe's variables; types.MethodType; "current" */

#define FRONT_OBJECTS(X) X(python) X(shown) X(original) X(names) X(partner)
GARBAGE(front, Front, FRONT_OBJECTS, NOTHING)

static void front_free(PyObject *self)
{
    if (((Front *)self)->weak_references != NULL) PyObject_ClearWeakRefs(self);
    free_object(self, (inquiry)front_clear);
}

/* ---- what it looks like ---------------------------------------------------------------------------------------- */

static PyObject *front_getattr(PyObject *self, PyObject *name)
{
    PyObject *attribute = PyObject_GenericGetAttr(self, name);
    if (attribute != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return attribute;
    PyErr_Clear();
    return PyObject_GetAttr(((Front *)self)->shown, name);
}

static int front_setattr(PyObject *self, PyObject *name, PyObject *value)
{
    return PyObject_SetAttr(((Front *)self)->shown, name, value);
}

static PyObject *front_attribute(PyObject *self, void *name)
{
    return PyObject_GetAttrString(((Front *)self)->shown, name);
}

/* Pickle it as a global variable of its module, so that a copy is the front itself; or by `__zmon_reduce__`. */
static PyObject *front_reduce(PyObject *self, PyObject *unused)
{
    PyObject *reducer = PyObject_GetAttrString(((Front *)self)->shown, "__zmon_reduce__");
    if (reducer == NULL) PyErr_Clear();
    if (reducer == NULL) return PyObject_GetAttrString(((Front *)self)->shown, "__qualname__");
    PyObject *reduced = PyObject_CallNoArgs(reducer);
    Py_DECREF(reducer);
    return reduced;
}

static PyObject *front_bind(PyObject *self, PyObject *object, PyObject *type)
{
    if (object != NULL && object != Py_None) return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
    Py_INCREF(self);
    return self;
}

static PyGetSetDef front_attributes[] = {
    {"__class__", front_attribute, NULL, NULL, "__class__"}, {"__doc__", front_attribute, NULL, NULL, "__doc__"},
    {"__module__", front_attribute, NULL, NULL, "__module__"}, {"__dict__", front_attribute, NULL, NULL, "__dict__"},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMemberDef front_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Front, call), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Front, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef front_methods[] = {
    {"__reduce__", front_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};
static PyType_Slot front_slots[] = {
    {Py_tp_traverse, front_traverse}, {Py_tp_clear, front_clear}, {Py_tp_dealloc, front_free},
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_getattro, front_getattr}, {Py_tp_setattro, front_setattr},
    {Py_tp_descr_get, front_bind}, {Py_tp_getset, front_attributes}, {Py_tp_members, front_members},
    {Py_tp_methods, front_methods}, {0, NULL},
};
static PyType_Spec front_spec = {
    "zmon.probe.edge.native.Front", sizeof(Front), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, front_slots,
};

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static Front *new_front(vectorcallfunc call, PyObject *python, PyObject *shown, PyObject *original)
{
    Front *self = PyObject_GC_New(Front, front_type);
    if (self == NULL) return NULL;
    self->call = call;
    self->weak_references = self->names = self->partner = self->original = self->python = self->shown = NULL;
    self->sent = self->received = self->group = self->is_async = -1;
    self->required = self->op = 0;
    assign(&self->python, python);
    assign(&self->shown, shown);
    assign(&self->original, original);
    PyObject_GC_Track((PyObject *)self);
    return self;
}

/* Return the timeline of this rank if C can record in it; else NULL, and `*is_watched` tells whether Python may. */
static Timeline *hot_timeline(int *is_watched)
{
    PyObject *current = PyDict_GetItemWithError(probe_names, name_of_current);
    *is_watched = is_set(current);
    if (!*is_watched || !PyObject_TypeCheck(current, timeline_type)) return NULL;
    return is_hot((Timeline *)current) ? (Timeline *)current : NULL;
}

/* Raise in the job what a signal handler of the job has raised in the probe; the interpreter calls this very soon. */
static int raise_in_job(void *exception)
{
    PyErr_SetObject((PyObject *)Py_TYPE((PyObject *)exception), exception);
    Py_DECREF((PyObject *)exception);
    return -1;
}

/* Count and report a failure of the probe itself, which must not reach the job. An interrupt, such as Ctrl-C, must. */
static void complain(void)
{
    Error error = put_aside_object();
    if (error.value != NULL && !PyErr_GivenExceptionMatches(error.type, PyExc_Exception)
        && Py_AddPendingCall(raise_in_job, error.value) == 0) {
        error.value = NULL; /* the pending call has the reference */
    } else {
        PyObject *function = PyDict_GetItemString(probe_names, "_complain");
        if (function != NULL && error.value != NULL)
            Py_XDECREF(PyObject_CallFunctionObjArgs(function, error.value, NULL));
        PyErr_Clear();
    }
    drop(error);
}

static inline PyObject *call_behind(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    return PyObject_Vectorcall(((Front *)self)->python, arguments, number, keywords);
}

static inline PyObject *call_original(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    return PyObject_Vectorcall(((Front *)self)->original, arguments, number, keywords);
}

/* Put the arguments in the order of the parameters. Return 0 if they do not fit: the function itself will complain. */
static int bind_arguments(Front *self, PyObject *const *arguments, Py_ssize_t number, PyObject *keywords,
                          PyObject **values)
{
    Py_ssize_t num_parameters = PyTuple_Size(self->names);
    Py_ssize_t num_keywords = keywords == NULL ? 0 : PyTuple_Size(keywords);
    if (number > num_parameters) return 0;
    for (Py_ssize_t index = 0; index < num_parameters; index++)
        values[index] = index < number ? arguments[index] : NULL;
    for (Py_ssize_t keyword = 0; keyword < num_keywords; keyword++) {
        PyObject *name = PyTuple_GetItem(keywords, keyword);
        Py_ssize_t index = number;
        while (index < num_parameters && PyTuple_GetItem(self->names, index) != name) index++; /* both are interned */
        if (index == num_parameters || values[index] != NULL) return 0;
        values[index] = arguments[number + keyword];
    }
    for (Py_ssize_t index = 0; index < self->required; index++)
        if (values[index] == NULL) return 0;
    return 1;
}

/* Raise the exception again in the frame of a wrapper: by this frame the last words recognize a collective. */
static void raise_in_frame(Front *self)
{
    Error error = put_aside_object();
    if (error.trace != NULL) PyException_SetTraceback(error.value, error.trace);
    Py_XDECREF(PyObject_CallFunctionObjArgs(self->partner, error.value, NULL)); /* it raises */
    drop(error);
}

#endif
