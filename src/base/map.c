#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

struct map_node {
	struct map_node *next;
	uint64_t hash;
	void *value;
	size_t key_len;
	char key[];
};

static inline uint64_t rotl(uint64_t x, int b)
{
	return x << b | x >> (64 - b);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

/* SipHash-1-3 */
static uint64_t hash_key(const struct map *m, struct span key)
{
	uint64_t v[4] = { m->seed[0] ^ 0x736f6d6570736575u, m->seed[1] ^ 0x646f72616e646f6du,
			  m->seed[0] ^ 0x6c7967656e657261u, m->seed[1] ^ 0x7465646279746573u };
	uint64_t word = 0, tail = (uint64_t)key.len << 56;
	size_t i;

	for (i = 0; i + 8 <= key.len; i += 8) {
		memcpy(&word, key.p + i, 8);
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	for (unsigned shift = 0; i < key.len; i++, shift += 8)
		tail |= (uint64_t)(unsigned char)key.p[i] << shift;
	v[3] ^= tail;
	sip_round(v);
	v[0] ^= tail;
	v[2] ^= 0xff;
	for (int r = 0; r < 3; r++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void map_init(struct map *m)
{
	*m = (struct map){ 0 };
	rand_bytes(m->seed, sizeof(m->seed));
}

void map_free(struct map *m)
{
	for (size_t i = 0; i < m->n_buckets; i++) {
		for (struct map_node *n = m->buckets[i], *next; n != NULL; n = next) {
			next = n->next;
			free(n);
		}
	}
	free(m->buckets);
	m->buckets = NULL;
	m->n_buckets = m->count = 0;
}

/* The link that points at the key's node, or at the NULL where it would hang. */
static struct map_node **find(const struct map *m, struct span key, uint64_t hash)
{
	struct map_node **at = &m->buckets[hash & (m->n_buckets - 1)];

	while (*at != NULL &&
	       ((*at)->hash != hash || !span_eq(span_of((*at)->key, (*at)->key_len), key)))
		at = &(*at)->next;
	return at;
}

static int grow(struct map *m)
{
	size_t n = m->n_buckets > 0 ? m->n_buckets * 2 : 16;
	struct map_node **buckets = calloc(n, sizeof(struct map_node *));

	if (buckets == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_buckets; i++) {
		for (struct map_node *node = m->buckets[i], *next; node != NULL; node = next) {
			struct map_node **at = &buckets[node->hash & (n - 1)];

			next = node->next;
			node->next = *at;
			*at = node;
		}
	}
	free(m->buckets);
	m->buckets = buckets;
	m->n_buckets = n;
	return 0;
}

void *map_get(const struct map *m, struct span key)
{
	struct map_node *n = m->count > 0 ? *find(m, key, hash_key(m, key)) : NULL;

	return n != NULL ? n->value : NULL;
}

int map_put(struct map *m, struct span key, void *value, void **ret_old)
{
	uint64_t hash = hash_key(m, key);
	struct map_node **at, *n;

	if (m->count >= m->n_buckets && grow(m) < 0)
		return -ENOMEM;
	at = find(m, key, hash);
	if (*at != NULL) {
		if (ret_old != NULL)
			*ret_old = (*at)->value;
		(*at)->value = value;
		return 0;
	}
	n = malloc(sizeof(*n) + key.len);
	if (n == NULL)
		return -ENOMEM;
	*n = (struct map_node){ .hash = hash, .value = value, .key_len = key.len };
	if (key.len > 0)
		memcpy(n->key, key.p, key.len);
	*at = n;
	m->count++;
	if (ret_old != NULL)
		*ret_old = NULL;
	return 0;
}

void *map_remove(struct map *m, struct span key)
{
	struct map_node **at, *n;
	void *value;

	if (m->count == 0)
		return NULL;
	at = find(m, key, hash_key(m, key));
	n = *at;
	if (n == NULL)
		return NULL;
	*at = n->next;
	value = n->value;
	free(n);
	m->count--;
	return value;
}

void *map_next(const struct map *m, struct map_cursor *c, struct span *ret_key)
{
	struct map_node *n = c->next;

	while (n == NULL && c->bucket < m->n_buckets)
		n = m->buckets[c->bucket++];
	if (n == NULL)
		return NULL;
	c->next = n->next;
	if (ret_key != NULL)
		*ret_key = span_of(n->key, n->key_len);
	return n->value;
}
