/* The probe's hot path in C: what a rank does at each phase, collective and step.
 *
 * It is optional. The classes in Python do the same, byte for byte (tests/probe/edge), and they still do whatever is
 * slow or rare: other threads, device events, changes of activity, new gauges. Only CPython's API is used, and nothing
 * of torch, so one build serves every version of torch. All code runs with the GIL held.
 *
 *     box.h                          the layout of the black box, clocks, checksum, live words and cells
 *     objects.h                      how a C type and the Python class behind it share their state
 *     samples.h, ledger.h            what a step adds up, and its boundary
 *     timeline.h, ops.h, rank.h      phases, collectives, steps
 *     front.h                        a callable in C before a wrapper in Python
 *     marks.h, collectives.h         the fronts of steps and optimizers, of collectives and waits
 *     reduction.h, backward.h        the fronts of DDP, of the autograd engine and of the model */

#include "backward.h"

/* Take from Python, at import: the numbers of the layout, the classes behind the C types, the sources of samples. */
static PyObject *install(PyObject *module, PyObject *arguments)
{
    PyObject *numbers, *classes[3], *sources[3];
    if (!PyArg_ParseTuple(arguments, "O(OOO)(OOO)", &numbers, &classes[0], &classes[1], &classes[2],
                          &sources[0], &sources[1], &sources[2])
        || read_numbers(numbers) < 0) return NULL;
    assign(&python_timeline, classes[0]);
    assign(&python_ledger, classes[1]);
    assign(&python_samples, classes[2]);
    assign(&declared, sources[0]);
    assign(&loader, sources[1]);
    assign(&model, sources[2]);
    Py_RETURN_NONE;
}

/* Set a variable of C to an object of a Python module; the name is that in the table below. */
static PyObject *connect(PyObject *module, PyObject *arguments)
{
    static const struct { const char *name; PyObject **slot; } variables[] = {
        {"probe_names", &probe_names}, {"method_type", &method_type}, {"groups", &groups},
        {"issued_calls", &issued_calls}, {"python_flights", &python_flights}, {"python_watch", &python_watch},
        {"phase_numbers", &phase_numbers}, {"python_step", &python_step}, {"rounds", &rounds},
        {"running_optimizers", &running_optimizers}, {"forward_names", &forward_names}, {"reducers", &reducers},
        {"note_unmarked_pass", &note_unmarked_pass}, {"note_loss", &note_loss}, {"reduction", &reduction},
        {"compiler_names", &compiler_names}, {"tensor_type", &tensor_type}, {"is_grad_enabled", &is_grad_enabled},
        {NULL, NULL},
    };
    const char *name;
    PyObject *value;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &value)) return NULL;
    for (int index = 0; variables[index].name != NULL; index++)
        if (strcmp(variables[index].name, name) == 0) {
            assign(variables[index].slot, value);
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_KeyError, "%s", name);
}

/* Return a front of this kind: a callable in C, which calls the wrapper `python` for whatever is slow or rare. */
static PyObject *make_front(PyObject *module, PyObject *arguments)
{
    static const struct { const char *kind; vectorcallfunc call; } kinds[] = {
        {"collective", call_collective}, {"wait", call_wait}, {"get_future", call_get_future}, {"phase", call_phase},
        {"work", call_work}, {"step", call_step}, {"update_begin", call_update_begin},
        {"update_end", call_update_end}, {"engine", call_engine}, {"gradient", call_gradient},
        {"call_of_model", call_of_model}, {"forward", call_forward}, {NULL, NULL},
    };
    const char *kind;
    PyObject *python, *shown, *original, *partner, *names;
    long long op, required;
    Py_ssize_t sent, received, group, is_async; /* positions of these parameters in a call; -1: there is none */
    if (!PyArg_ParseTuple(arguments, "sOOOOO!LL(nnnn)", &kind, &python, &shown, &original, &partner, &PyTuple_Type,
                          &names, &op, &required, &sent, &received, &group, &is_async)) return NULL;
    if (PyTuple_Size(names) > MAX_PARAMETERS)
        return PyErr_Format(PyExc_ValueError, "a front has at most %d parameters", MAX_PARAMETERS);
    for (int index = 0; kinds[index].kind != NULL; index++) {
        if (strcmp(kinds[index].kind, kind) != 0) continue;
        Front *front = new_front(kinds[index].call, python, shown, original);
        if (front == NULL) return NULL;
        assign(&front->names, names);
        assign(&front->partner, partner);
        front->op = op;
        front->required = (Py_ssize_t)required;
        front->sent = sent;
        front->received = received;
        front->group = group;
        front->is_async = is_async;
        return (PyObject *)front;
    }
    return PyErr_Format(PyExc_KeyError, "%s", kind);
}

/* Return the number of collectives in flight that C watches; forget those whose work object is gone. */
static PyObject *count_flights(PyObject *module, PyObject *unused)
{
    long number = 0;
    for (int index = num_flights - 1; index >= 0; index--) /* from the end, because this may lower num_flights */
        if (index < num_flights && flights[index].reference != NULL && !is_alive(&flights[index]))
            forget_flight(&flights[index]);
    for (int index = 0; index < num_flights; index++) number += flights[index].reference != NULL;
    return PyLong_FromLong(number);
}

#ifdef ZMON_RECORD_STORES
/* Return the positions of the live words that were stored since the last call, in order. */
static PyObject *take_stores(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    for (int64_t number = 0; list != NULL && number < num_stores; number++) {
        PyObject *index = PyLong_FromLongLong(stores[number]);
        if (index == NULL || PyList_Append(list, index) < 0) Py_CLEAR(list);
        Py_XDECREF(index);
    }
    num_stores = 0;
    return list;
}
#endif

/* Make the names of attributes that fronts look up. */
static int make_names(void)
{
    return (name_of_compiling = PyUnicode_InternFromString("_is_compiling_flag")) == NULL
        || (name_of_current = PyUnicode_InternFromString("current")) == NULL
        || (name_of_nbytes = PyUnicode_InternFromString("nbytes")) == NULL
        || (name_of_single = PyUnicode_InternFromString("single")) == NULL
        || (name_of_unmarked = PyUnicode_InternFromString("_unmarked")) == NULL
        || (name_of_training = PyUnicode_InternFromString("training")) == NULL
        || (name_of_shape = PyUnicode_InternFromString("shape")) == NULL
        || (name_of_dict = PyUnicode_InternFromString("__dict__")) == NULL
        || (name_of_found_inf = PyUnicode_InternFromString("found_inf")) == NULL
        || (name_of_accumulates = PyUnicode_InternFromString("accumulate_grad")) == NULL
        || (name_of_marked = PyUnicode_InternFromString("_marked_by_call")) == NULL ? -1 : 0;
}

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type, const char *name)
{
    *type = (PyTypeObject *)PyType_FromSpec(spec);
    return *type == NULL ? -1 : PyModule_AddObjectRef(module, name, (PyObject *)*type);
}

static PyMethodDef functions[] = {
    {"install", install, METH_VARARGS, NULL},
    {"connect", connect, METH_VARARGS, NULL},
    {"front", make_front, METH_VARARGS, NULL},
    {"num_flights", count_flights, METH_NOARGS, NULL},
#ifdef ZMON_RECORD_STORES
    {"take_stores", take_stores, METH_NOARGS, NULL},
#endif
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "zmon.probe.edge.native", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_native(void)
{
    PyObject *module = PyModule_Create(&definition);
    fill_crc_tables();
    if (module == NULL || add_type(module, &samples_spec, &samples_type, "SampleCounter") < 0
        || add_type(module, &ledger_spec, &ledger_type, "Ledger") < 0
        || add_type(module, &timeline_spec, &timeline_type, "Timeline") < 0
        || add_type(module, &front_spec, &front_type, "Front") < 0
        || add_type(module, &reduction_spec, &reduction_type, "Reduction") < 0
        || add_type(module, &step_spec, &step_type, "Step") < 0 || make_names() < 0) return NULL;
    return module;
}
