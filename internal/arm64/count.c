// A plugin of QEMU's that counts the instructions which a program executes and prints
// their number when it ends. The declarations are those of QEMU's plugin API, version 1.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t id;
struct block;

int qemu_plugin_version = 1;
void qemu_plugin_register_vcpu_tb_trans_cb(id plugin, void (*translated)(id plugin, struct block *b));
void qemu_plugin_register_vcpu_tb_exec_inline(struct block *b, int operation, void *to, uint64_t number);
void qemu_plugin_register_atexit_cb(id plugin, void (*ended)(id plugin, void *unused), void *unused);
size_t qemu_plugin_tb_n_insns(const struct block *b);

static uint64_t executed;

static void translated(id plugin, struct block *b) {
	const int add = 0;
	(void)plugin;
	qemu_plugin_register_vcpu_tb_exec_inline(b, add, &executed, qemu_plugin_tb_n_insns(b));
}

static void ended(id plugin, void *unused) {
	(void)plugin, (void)unused;
	fprintf(stderr, "executed %llu\n", (unsigned long long)executed);
}

int qemu_plugin_install(id plugin, const void *info, int argc, char **argv) {
	(void)info, (void)argc, (void)argv;
	qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated);
	qemu_plugin_register_atexit_cb(plugin, ended, NULL);
	return 0;
}
