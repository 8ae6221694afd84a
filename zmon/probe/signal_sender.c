/* Records when the first signal reached a rank and which process sent it, from its handler (si_pid, sigaction(2)).
 *
 * Python tells a handler nothing about the sender, and faulthandler, which writes the stack, does not look at it. This
 * handler writes one line to the end of the box, `PREFIX PID at SECONDS.NANOSECONDS`, and then calls the handler that
 * was there before: that of faulthandler, or that of Python, which calls the job's own.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_PREFIX 64
#define MAX_ELSEWHERE 128
#define MAX_DIGITS 20
#define NANOSECOND_DIGITS 9

static int descriptor = -1;
static pid_t rank_pid; /* a worker that the rank has forked must not write into its box */
static char line[MAX_PREFIX + 3 * MAX_DIGITS]; /* the prefix, then room for three numbers and what is between them */
static size_t prefix_size;
static char elsewhere[MAX_ELSEWHERE];
static size_t elsewhere_size;
static struct sigaction previous;
static volatile sig_atomic_t is_written; /* only the first signal counts: launchers signal the survivors of a failure */

/* Append a number with at least `width` digits. Only async-signal-safe calls are allowed here (signal-safety(7)):
 * printf is not one of them. */
static size_t append_number(size_t size, unsigned long number, int width) {
  char digits[MAX_DIGITS];
  int num_digits = 0;
  do {
    digits[num_digits++] = (char)('0' + number % 10);
    number /= 10;
  } while (number || num_digits < width);
  while (num_digits) line[size++] = digits[--num_digits];
  return size;
}

static void write_sender(pid_t sender) {
  struct timespec now;
  size_t size;
  if (is_written || getpid() != rank_pid) return;
  is_written = 1;
  clock_gettime(CLOCK_REALTIME, &now);
  size = append_number(prefix_size, sender > 0 ? (unsigned long)sender : 0, 1);
  memcpy(line + size, " at ", 4);
  size = append_number(size + 4, (unsigned long)now.tv_sec, 1);
  line[size++] = '.';
  size = append_number(size, (unsigned long)now.tv_nsec, NANOSECOND_DIGITS);
  line[size++] = '\n';
  if (write(descriptor, line, size) < 0) return; /* no room: the rank ends without this line */
  if (syscall(SYS_gettid) == rank_pid) return;
  if (write(descriptor, elsewhere, elsewhere_size) < 0) return;
}

static void on_signal(int number, siginfo_t *info, void *context) {
  int error = errno;
  /* A signal of a user's process has a pid. A signal of the kernel itself, such as Ctrl-C in a terminal, has none. */
  write_sender(info->si_code <= 0 ? info->si_pid : 0);
  errno = error;
  if (previous.sa_flags & SA_SIGINFO)
    previous.sa_sigaction(number, info, context);
  else
    previous.sa_handler(number);
}

PyDoc_STRVAR(record_doc,
             "record_sender(number, descriptor, prefix, elsewhere)\n--\n\n"
             "Write `prefix`, the sender's pid and the time to the descriptor when this signal comes first, before its "
             "present handler runs. `elsewhere` follows if another thread than the main one handles it.\n\n"
             "Only one signal is watched. A second call, after the job has set a handler of its own, watches it again. "
             "The pid is 0 if the kernel sent the signal, or a process of another PID namespace. Raises ValueError if "
             "the signal has no handler, and OSError.");

static PyObject *record_sender(PyObject *self, PyObject *args) {
  int number, fd;
  const char *prefix, *text;
  Py_ssize_t size, text_size;
  struct sigaction present, action;
  if (!PyArg_ParseTuple(args, "iiy#y#", &number, &fd, &prefix, &size, &text, &text_size)) return NULL;
  if (size > MAX_PREFIX) return PyErr_Format(PyExc_ValueError, "the prefix is longer than %d bytes", MAX_PREFIX);
  if (text_size > MAX_ELSEWHERE)
    return PyErr_Format(PyExc_ValueError, "the text is longer than %d bytes", MAX_ELSEWHERE);
  if (sigaction(number, NULL, &present)) return PyErr_SetFromErrno(PyExc_OSError);
  if (present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN)
    return PyErr_Format(PyExc_ValueError, "signal %d has no handler", number);
  if ((present.sa_flags & SA_SIGINFO) && present.sa_sigaction == on_signal) Py_RETURN_NONE; /* called twice */
  previous = present;
  descriptor = fd;
  rank_pid = getpid();
  memcpy(line, prefix, (size_t)size);
  prefix_size = (size_t)size;
  memcpy(elsewhere, text, (size_t)text_size);
  elsewhere_size = (size_t)text_size;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  /* The flags of the present handler hold for this one: faulthandler raises the signal again from within. */
  action.sa_flags = present.sa_flags | SA_SIGINFO;
  action.sa_mask = present.sa_mask;
  if (sigaction(number, &action, NULL)) return PyErr_SetFromErrno(PyExc_OSError);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"record_sender", record_sender, METH_VARARGS, record_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_signal_sender", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__signal_sender(void) { return PyModuleDef_Init(&module); }
