/* The probe's hot path in C: what a rank does at each phase, collective and step.
 *
 * It is optional. The classes in Python do the same, byte for byte (tests/probe/edge), and they still do whatever is slow
 * or rare: other threads, device events, changes of activity, new gauges. Only CPython's API is used, and nothing of
 * torch, so one build serves every version of torch. All code runs with the GIL held.
 *
 *     box.h        the layout of the black box, clocks, checksum, live words and cells
 *     objects.h    how a C type and the Python class behind it share their state
 *     samples.h · interface.h · ledger.h     what a step adds up, and its boundary
 *     timeline.h · ops.h · rank.h            phases, collectives, steps */

#include "rank.h"

/* Take the numbers of the layout, and the classes in Python that do the rest. */
static PyObject *install(PyObject *module, PyObject *arguments)
{
    PyObject *numbers, *classes[3], *sources[3];
    (void)module;
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

#ifdef ZMON_RECORD_STORES
/* Return the positions of the live words that were stored since the last call, in order. */
static PyObject *take_stores(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    (void)module;
    (void)unused;
    for (int64_t number = 0; list != NULL && number < num_stores; number++) {
        PyObject *index = PyLong_FromLongLong(stores[number]);
        if (index == NULL || PyList_Append(list, index) < 0) Py_CLEAR(list);
        Py_XDECREF(index);
    }
    num_stores = 0;
    return list;
}
#endif

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type, const char *name)
{
    *type = (PyTypeObject *)PyType_FromSpec(spec);
    return *type == NULL ? -1 : PyModule_AddObjectRef(module, name, (PyObject *)*type);
}

static PyMethodDef functions[] = {
    {"install", install, METH_VARARGS, NULL},
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
        || add_type(module, &interface_spec, &interface_type, "JobInterface") < 0
        || add_type(module, &ledger_spec, &ledger_type, "Ledger") < 0
        || add_type(module, &timeline_spec, &timeline_type, "Timeline") < 0) return NULL;
    return module;
}
