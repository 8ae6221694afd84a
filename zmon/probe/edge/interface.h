/* The hot part of zmon/probe/interface.py: the byte counters of the job's interface, by two preads. */

#ifndef ZMON_EDGE_INTERFACE_H
#define ZMON_EDGE_INTERFACE_H

#include <stdlib.h>
#include <unistd.h>
#include "objects.h"

typedef struct {
    PyObject_HEAD
    int sent, received, known;
    int64_t last_sent, last_received, num_steps, read_at;
} Interface;

static PyTypeObject *interface_type;

static int interface_clear(Interface *self) { (void)self; return 0; }
static int interface_traverse(Interface *self, visitproc visit, void *arg) { Py_VISIT(Py_TYPE((PyObject *)self)); return 0; }
static void interface_free(PyObject *self) { free_object(self, (inquiry)interface_clear); }

/* Read a counter of sysfs; return 0 if the interface is gone. */
static int read_counter(int file, int64_t *value)
{
    char text[33];
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    if (size <= 0) return 0;
    text[size] = 0;
    char *end;
    *value = strtoll(text, &end, 10);
    return end != text;
}

/* Return 1 and the bytes since the last call; 0 if the interface is gone or its counters were reset. */
static int moved_since_last(Interface *self, int64_t *sent, int64_t *received)
{
    int64_t now_sent, now_received;
    int was_known = self->known;
    self->known = read_counter(self->sent, &now_sent) && read_counter(self->received, &now_received);
    if (!self->known) return 0;
    *sent = now_sent - self->last_sent;
    *received = now_received - self->last_received;
    self->last_sent = now_sent;
    self->last_received = now_received;
    return was_known && *sent >= 0 && *received >= 0;
}

/* The same at the end of a step, and in how many steps; 0: also if it is too early to read. */
static int moved_in_steps(Interface *self, int64_t now, int64_t *sent, int64_t *received, int64_t *num_steps)
{
    self->num_steps++;
    if (now - self->read_at < layout.nic_interval_ns) return 0;
    *num_steps = self->num_steps;
    self->num_steps = 0;
    self->read_at = now;
    return moved_since_last(self, sent, received);
}

static PyObject *interface_since_last(Interface *self, PyObject *unused)
{
    int64_t sent, received;
    (void)unused;
    if (!moved_since_last(self, &sent, &received)) Py_RETURN_NONE;
    return Py_BuildValue("(LL)", (long long)sent, (long long)received);
}

static PyObject *get_last(Interface *self, void *unused)
{
    (void)unused;
    if (!self->known) Py_RETURN_NONE;
    return Py_BuildValue("(LL)", (long long)self->last_sent, (long long)self->last_received);
}

static int set_last(Interface *self, PyObject *reading, void *unused)
{
    long long sent = 0, received = 0;
    (void)unused;
    if (is_set(reading) && !PyArg_ParseTuple(reading, "LL", &sent, &received)) return -1;
    self->known = is_set(reading);
    self->last_sent = sent;
    self->last_received = received;
    return 0;
}

static PyMemberDef interface_members[] = {
    {"_sent", T_INT, offsetof(Interface, sent), 0, NULL},
    {"_received", T_INT, offsetof(Interface, received), 0, NULL},
    {"_num_steps", T_LONGLONG, offsetof(Interface, num_steps), 0, NULL},
    {"_read_at", T_LONGLONG, offsetof(Interface, read_at), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef interface_attributes[] = {
    {"_last", (getter)get_last, (setter)set_last, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef interface_methods[] = {
    {"since_last", (PyCFunction)interface_since_last, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};
static PyType_Slot interface_slots[] = {
    {Py_tp_traverse, interface_traverse}, {Py_tp_dealloc, interface_free}, {Py_tp_members, interface_members},
    {Py_tp_getset, interface_attributes}, {Py_tp_methods, interface_methods}, {0, NULL},
};
static PyType_Spec interface_spec = {"zmon.probe.edge.native.JobInterface", sizeof(Interface), 0, FLAGS, interface_slots};

#endif
