/* Packets for the runner: what passes the checks must be safe to use without looking again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/msg.h"

static void must(int truth)
{
	if (!truth)
		abort();
}

static int clean(const char *path)
{
	return path[0] == '/' && strstr(path, "//") == NULL && strstr(path, "/./") == NULL &&
	       strstr(path, "/../") == NULL;
}

/* Of the store: strictly below it, whatever is opened in it. */
static int part(const char *from)
{
	size_t len = strlen(from);

	return len > 0 && from[0] != '/' && from[0] != '.' && from[len - 1] != '/' &&
	       strstr(from, "//") == NULL && strstr(from, "/./") == NULL &&
	       strstr(from, "/../") == NULL && strcspn(from, "/") < MSG_NAME_SIZE &&
	       (len < 3 || strcmp(from + len - 3, "/..") != 0);
}

static void check_create(const struct msg_create *m)
{
	struct err e = ERR_INIT;

	if (msg_check_create(m, &e) < 0) {
		must(e.code > 0 && memchr(e.msg, '\0', sizeof(e.msg)) != NULL && e.msg[0] != '\0');
		return;
	}
	must(memchr(m->id, '\0', sizeof(m->id)) != NULL && strchr(m->id, '/') == NULL);
	must(m->n_layers <= MSG_MAX_LAYERS && m->n_volumes <= MSG_MAX_VOLUMES);
	for (uint32_t i = 0; i < m->n_layers; i++)
		must(memchr(m->layers[i], '\0', MSG_NAME_SIZE) != NULL && m->layers[i][0] != '.' &&
		     m->layers[i][0] != '\0' && strchr(m->layers[i], '/') == NULL);
	for (uint32_t i = 0; i < m->n_volumes; i++) {
		const struct msg_volume *v = &m->volumes[i];

		must(memchr(v->target, '\0', MSG_PATH_SIZE) != NULL && clean(v->target));
		must(memchr(v->from, '\0', MSG_PATH_SIZE) != NULL);
		must(v->source == MSG_FROM_HOST ? clean(v->from) : part(v->from));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static union {
		struct msg_create create;
		uint8_t bytes[sizeof(struct msg_create)];
	} packet;
	size_t n = len < sizeof(packet) ? len : sizeof(packet);

	/* as a packet */
	for (size_t fds = 0; fds <= MSG_MAX_FDS + 1; fds++) {
		if (msg_is_request(data, len, fds)) {
			struct msg_head h;

			memcpy(&h, data, sizeof(h));
			must(msg_kind(h.type) != NULL && h.size == len && fds <= MSG_MAX_FDS);
		}
		(void)msg_is_answer(data, len, fds);
	}
	/* as the fields of a create: short inputs are spread over the interesting ones */
	memset(&packet, 0, sizeof(packet));
	memcpy(packet.bytes, data, n);
	if (n < sizeof(packet)) {
		packet.create.n_layers %= 4;
		packet.create.n_volumes %= 4;
		for (size_t i = 0; i < n && i < MSG_PATH_SIZE; i++) {
			packet.create.layers[0][i % MSG_NAME_SIZE] = (char)data[i];
			packet.create.volumes[0].target[i] = (char)data[i];
			packet.create.volumes[0].from[i] = (char)data[n - 1 - i];
		}
		packet.create.volumes[0].source = (uint32_t)(n % 3);
	}
	check_create(&packet.create);
	return 0;
}
