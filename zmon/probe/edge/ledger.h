/* The hot part of zmon/probe/ledger.py: the totals of a rank, as the image of its next boundary. */

#ifndef ZMON_EDGE_LEDGER_H
#define ZMON_EDGE_LEDGER_H

#include "samples.h"

static PyObject *python_ledger; /* the class in Python */

typedef struct {
    PyObject_HEAD
    Box box;
    Words image, times_at_boundary;
    Clock unix_clock;
    PyObject *writer, *interface, *memory_reader, *device, *samples, *report, *declared_dtype;
    int64_t num_single, memory_read_at, interface_read_at, unread_steps, counted_flops, counted_samples;
} Ledger; /* the attributes of Ledger (ledger.py); `image` is its `_numbers` */

static PyTypeObject *ledger_type;

#define LEDGER_OBJECTS(X) X(interface) X(memory_reader) X(device) X(report) X(declared_dtype)
#define LEDGER_KEPT(X) X(unix_clock.function) X(writer) X(samples)
GARBAGE(ledger, Ledger, LEDGER_OBJECTS, LEDGER_KEPT)

static int ledger_end(Ledger *self)
{
    ledger_clear(self);
    close_box(&self->box);
    drop_words(&self->image);
    drop_words(&self->times_at_boundary);
    LEDGER_KEPT(CLEAR)
    return 0;
}

static void ledger_free(PyObject *self) { free_object(self, (inquiry)ledger_end); }

static int64_t limited_sum(int64_t total, int64_t amount)
{
    if (total <= 0) total = 0;
    return amount > layout.max_amount - total ? layout.max_amount : total + amount;
}

/* Totals count on from 0 beyond the largest amount. */
static int64_t total_with(int64_t total, int64_t amount)
{
    return ((total > 0 ? total : 0) + amount) & layout.max_amount;
}

/* Return the operations of a step with this number of samples, from the step that was counted. */
static int64_t inferred_flops(Ledger *self, int64_t samples)
{
    if (self->counted_samples <= 0 || samples < 0) return self->counted_flops;
    __int128 flops = (__int128)self->counted_flops * samples / self->counted_samples;
    return flops < layout.max_amount ? (int64_t)flops : layout.max_amount;
}

/* ---- a step ------------------------------------------------------------------------------------------------- */

/* Let Python read something that is seldom due. */
static int run_at(Ledger *self, const char *method, int64_t now)
{
    PyObject *moment = PyLong_FromLongLong(now);
    int failed = moment == NULL || run_python(python_ledger, method, (PyObject *)self, &moment, 1) < 0;
    Py_XDECREF(moment);
    return failed ? -1 : 0;
}

/* Fill in what is read at the end of a step: the samples, and the memory of the device. */
static int read_amounts(Ledger *self, int64_t *amounts, int64_t now)
{
    const int64_t *counts = self->image.words + layout.counts;
    int64_t samples, num_single = sum(counts[layout.send], counts[layout.recv]);
    int known = end_samples((Samples *)self->samples, num_single > self->num_single, &samples);
    if (known < 0) return -1;
    self->num_single = num_single;
    if (known) amounts[layout.samples] = samples < layout.max_amount ? samples : layout.max_amount;
    if (self->counted_flops > 0 && amounts[layout.flops] < 0)
        amounts[layout.flops] = inferred_flops(self, amounts[layout.samples]);
    if (is_set(self->memory_reader) && now - self->memory_read_at > layout.memory_interval_ns)
        return run_at(self, "_read_memory", now);
    return 0;
}

/* Write the image as the next boundary, the end of a step. */
static void write_step(Ledger *self, int64_t number, int64_t now, int64_t duration, int64_t overhead_ns)
{
    int64_t *image = self->image.words;
    image[layout.kind] = layout.is_step;
    image[layout.step_number] = number;
    image[layout.time] = now;
    image[layout.overhead] = overhead_ns;
    image[layout.number]++;
    image[layout.steps]++;
    image[layout.step_ns] = sum(image[layout.step_ns], duration);
    write_boundary(&self->box, image);
    memcpy(self->times_at_boundary.words, image + layout.times, (size_t)layout.num_times * 8);
    image[layout.reported] = 0;
    memset(image + layout.values, 0, (size_t)layout.num_values * 8);
}

/* Write the boundary at the end of a step. */
static int end_ledger_step(Ledger *self, int64_t number, int64_t now, int64_t duration, int64_t overhead_ns)
{
    int64_t *image = self->image.words, *amounts = image + layout.step_amounts, *totals = image + layout.amounts;
    if (read_amounts(self, amounts, now) < 0) return -1;
    for (int64_t index = 0; index < layout.num_amounts; index++)
        if (amounts[index] >= 0) totals[index] = total_with(totals[index], amounts[index]);
    if (is_set(self->interface)) {
        self->unread_steps++;
        int is_due = now - self->interface_read_at >= layout.interface_interval_ns;
        if (is_due && run_at(self, "_read_interface", now) < 0) return -1;
    }
    image[layout.last_step] = self->unix_clock.read(&self->unix_clock);
    write_step(self, number, now, duration, overhead_ns);
    for (int64_t index = 0; index < layout.num_amounts; index++) amounts[index] = layout.unknown;
    return 0;
}

/* Return 1 if steps can end in C: there is no device, and no test has replaced the samples. */
static int ends_steps(Ledger *self)
{
    return !is_set(self->device) && self->samples != NULL && PyObject_TypeCheck(self->samples, samples_type);
}

static PyObject *ledger_step(Ledger *self, PyObject *const *arguments, Py_ssize_t number, PyObject *keywords)
{
    int64_t values[4] = {0};
    if (!ends_steps(self) || keywords != NULL)
        return call_python(python_ledger, "step", (PyObject *)self, arguments, number, keywords);
    if (read_integers(values, 4, arguments, number) < 0) return NULL;
    if (end_ledger_step(self, values[0], values[1], values[2], values[3]) < 0) return NULL;
    Py_RETURN_NONE;
}

/* ---- what a job reports ------------------------------------------------------------------------------------- */

/* Return 1 if the argument is missing, None or a count that fits, and read it. */
static int is_count(PyObject *argument, int64_t *value)
{
    *value = layout.unknown;
    if (!is_set(argument)) return 1;
    if (!PyLong_CheckExact(argument)) return 0;
    *value = PyLong_AsLongLong(argument);
    if (*value == -1 && PyErr_Occurred()) PyErr_Clear();
    return *value >= 0 && *value <= layout.max_amount;
}

/* Add to the work of the step, in the order of the amounts that a job can declare; return 0 if Python must do it. */
static int add_work(Ledger *self, PyObject *const *work, Py_ssize_t number)
{
    int64_t numbers[MAX_PARAMETERS], *amounts = self->image.words + layout.step_amounts;
    Samples *counter = (Samples *)self->samples;
    if (!PyObject_TypeCheck(self->samples, samples_type) || counter->source != declared) return 0;
    for (Py_ssize_t index = 0; index < number; index++)
        if (!is_count(work[index], &numbers[index])) return 0;
    for (Py_ssize_t index = 0; index < number; index++)
        if (numbers[index] >= 0) amounts[index] = limited_sum(amounts[index], numbers[index]);
    return 1;
}

static PyObject *ledger_work(Ledger *self, PyObject *const *arguments, Py_ssize_t number, PyObject *keywords)
{
    if (keywords == NULL && number <= layout.num_declared && add_work(self, arguments, number)) Py_RETURN_NONE;
    return call_python(python_ledger, "work", (PyObject *)self, arguments, number, keywords);
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static int set_writer(Ledger *self, PyObject *writer, void *unused)
{
    close_box(&self->box);
    if (writer == NULL || open_box(&self->box, writer) < 0) return -1;
    assign(&self->writer, writer);
    return 0;
}

static int set_unix_clock(Ledger *self, PyObject *function, void *unused)
{
    return set_clock(&self->unix_clock, function, "time_ns", unix_time);
}

static PyGetSetDef ledger_attributes[] = {
    WORDS("_numbers", Ledger, image),
    WORDS("_times_at_boundary", Ledger, times_at_boundary),
    OBJECT("_box", Ledger, writer, set_writer),
    OBJECT("_unix_clock", Ledger, unix_clock.function, set_unix_clock),
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMemberDef ledger_members[] = {
    {"_interface", T_OBJECT, offsetof(Ledger, interface), 0, NULL},
    {"memory_reader", T_OBJECT, offsetof(Ledger, memory_reader), 0, NULL},
    {"device", T_OBJECT, offsetof(Ledger, device), 0, NULL},
    {"samples", T_OBJECT, offsetof(Ledger, samples), 0, NULL},
    {"_report", T_OBJECT, offsetof(Ledger, report), 0, NULL},
    {"declared_dtype", T_OBJECT, offsetof(Ledger, declared_dtype), 0, NULL},
    {"counted_flops", T_LONGLONG, offsetof(Ledger, counted_flops), 0, NULL},
    {"counted_samples", T_LONGLONG, offsetof(Ledger, counted_samples), 0, NULL},
    {"_num_single", T_LONGLONG, offsetof(Ledger, num_single), 0, NULL},
    {"_memory_read_at", T_LONGLONG, offsetof(Ledger, memory_read_at), 0, NULL},
    {"_interface_read_at", T_LONGLONG, offsetof(Ledger, interface_read_at), 0, NULL},
    {"_unread_steps", T_LONGLONG, offsetof(Ledger, unread_steps), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef ledger_methods[] = {
    METHOD("step", ledger_step), METHOD("work", ledger_work), {NULL, NULL, 0, NULL},
};
static PyType_Slot ledger_slots[] = {
    {Py_tp_traverse, ledger_traverse}, {Py_tp_clear, ledger_clear}, {Py_tp_dealloc, ledger_free},
    {Py_tp_getset, ledger_attributes}, {Py_tp_members, ledger_members}, {Py_tp_methods, ledger_methods}, {0, NULL},
};
static PyType_Spec ledger_spec = {"zmon.probe.edge.native.Ledger", sizeof(Ledger), 0, FLAGS, ledger_slots};

#endif
