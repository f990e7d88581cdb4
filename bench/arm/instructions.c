/* A plugin for qemu-user: counts the instructions that a program executes, in a file that others read meanwhile.
 *
 *     qemu-arm -plugin file=instructions.so,counts=FILE PROGRAM...
 *
 * FILE gets a counter of 8 bytes for each thread, each in a cache line of its own; their sum is the program's. A block of translated code is
 * counted as a whole when it begins, so an instruction that faults counts with those behind it.
 *
 * No package of Debian has qemu's header of this interface, so the few declarations are here: version 1 of it, tried with QEMU 7.2.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
typedef void (*translated_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*executed_t)(unsigned int thread, void *data);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated_t);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed_t, enum qemu_plugin_cb_flags, void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* Numbers of threads begin at 0, and those of threads that ended are used again. */
#define THREADS_MAX 1024
struct counter { _Alignas(64) volatile uint64_t instructions; };
static struct counter *counters;

static void executed(unsigned int thread, void *data)
{
    counters[thread % THREADS_MAX].instructions += (uintptr_t)data;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    const size_t bytes = THREADS_MAX * sizeof(struct counter);
    (void)info;
    if (argc != 1 || strncmp(argv[0], "counts=", 7) != 0) {
        fprintf(stderr, "instructions: give counts=FILE\n");
        return -1;
    }
    int file = open(argv[0] + 7, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0 || ftruncate(file, bytes) != 0) {
        perror(argv[0] + 7);
        return -1;
    }
    counters = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (counters == MAP_FAILED) {
        perror("instructions: mmap");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
