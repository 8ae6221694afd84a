/* The hot part of zmon/probe/samples.py: the samples of a step, from its batches. */

#ifndef ZMON_EDGE_SAMPLES_H
#define ZMON_EDGE_SAMPLES_H

#include "objects.h"

static PyObject *python_samples;            /* the class in Python */
static PyObject *declared, *loader, *model; /* zmon.schema.names.SAMPLES_SOURCES */

typedef struct {
    PyObject_HEAD
    PyObject *source, *loaded, *last;
    int64_t model, called, calls, backwards;
} Samples; /* the attributes of SampleCounter (samples.py) */

static PyTypeObject *samples_type;

#define SAMPLES_OBJECTS(X) X(source) X(loaded) X(last)
GARBAGE(samples, Samples, SAMPLES_OBJECTS, NOTHING)

static void samples_free(PyObject *self) { free_object(self, (inquiry)samples_clear); }

/* Add a batch that a model received. */
static void call_model(Samples *self, int64_t called_model, int64_t number)
{
    if (self->calls == 0) self->model = called_model;
    if (called_model != self->model) return;
    self->called = sum(self->called, number);
    self->calls++;
}

/* Infer the samples of the step so far; return their source, or NULL if they are unknown. */
static PyObject *inferred(Samples *self, int64_t *number)
{
    Py_ssize_t position = 0;
    PyObject *key, *value;
    *number = 0;
    while (self->loaded != NULL && PyDict_Next(self->loaded, &position, &key, &value)) {
        int64_t batch = PyLong_AsLongLong(value);
        if (batch > *number) *number = batch;
    }
    if (position > 0) return loader;
    if (self->calls == 0 || self->backwards == 0 || self->source == loader) return NULL;
    *number = self->called * (self->calls < self->backwards ? self->calls : self->backwards) / self->calls;
    return model;
}

/* End the step. Return 1 and the samples if they are inferred, 0 if they are unknown or the job reports them. */
static int end_samples(Samples *self, int is_stage, int64_t *number)
{
    if (self->source == declared) return 0;
    PyObject *source = is_stage ? NULL : inferred(self, number);
    if (source != NULL && source != self->source
        && run_python(python_samples, "_set_source", (PyObject *)self, &source, 1) < 0) return -1;
    if (self->loaded != NULL && PyDict_Size(self->loaded) > 0) PyDict_Clear(self->loaded);
    assign(&self->last, Py_None);
    self->model = self->called = self->calls = self->backwards = 0;
    return source != NULL;
}

static PyMemberDef samples_members[] = {
    {"source", T_OBJECT, offsetof(Samples, source), 0, NULL},
    {"_loaded", T_OBJECT, offsetof(Samples, loaded), 0, NULL},
    {"_last", T_OBJECT, offsetof(Samples, last), 0, NULL},
    {"_model", T_LONGLONG, offsetof(Samples, model), 0, NULL},
    {"_called", T_LONGLONG, offsetof(Samples, called), 0, NULL},
    {"_calls", T_LONGLONG, offsetof(Samples, calls), 0, NULL},
    {"backwards", T_LONGLONG, offsetof(Samples, backwards), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot samples_slots[] = {
    {Py_tp_traverse, samples_traverse}, {Py_tp_clear, samples_clear}, {Py_tp_dealloc, samples_free},
    {Py_tp_members, samples_members}, {0, NULL},
};
static PyType_Spec samples_spec = {"zmon.probe.edge.native.SampleCounter", sizeof(Samples), 0, FLAGS, samples_slots};

#endif
