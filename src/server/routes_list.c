/* GET /sandboxes: filters and paging over the table in memory. */
#include <string.h>

#include "codec/url.h"
#include "server/routes.h"

#define MAX_PAIRS 64

struct filter {
	bool by_state;
	unsigned states; /* bits */
	struct {
		struct span key, value;
	} pairs[MAX_PAIRS];
	unsigned n_pairs;
};

static bool read_states(struct http_req *r, struct filter *f)
{
	struct span text;

	for (unsigned i = 0; (text = http_query(r, "state", i)).p != NULL; i++) {
		enum sandbox_state s;

		f->by_state = true; /* a state that does not exist matches nothing */
		if (sandbox_state_parse(text, &s))
			f->states |= 1u << s;
	}
	return true;
}

/* The value was decoded once as a query parameter. What it holds is a form again, whose parts some
 * clients encode once more and some do not (and one does so twice): decode until nothing
 * changes. */
static bool decode_part(struct http_req *r, struct span raw, struct span *ret)
{
	for (int turn = 0; turn < 3 && memchr(raw.p, '%', raw.len) != NULL; turn++) {
		char *out = arena_alloc(&r->arena, raw.len + 1);
		ptrdiff_t n = out != NULL ? url_decode(raw, URL_QUERY, out, raw.len) : -ENOMEM;

		if (n < 0)
			return false;
		raw = span_of(out, (size_t)n);
	}
	*ret = raw;
	return true;
}

static bool read_metadata(struct http_req *r, struct filter *f)
{
	struct span rest = http_query(r, "metadata", 0);

	if (rest.p == NULL || rest.len == 0)
		return true;
	while (rest.p != NULL) {
		struct span value = span_cut(&rest, '&'), key;
		ptrdiff_t at = span_find(value, '=');

		if (at < 0 && memchr(value.p, '%', value.len) != NULL &&
		    decode_part(r, value, &value))
			at = span_find(value, '='); /* the whole pair was encoded */
		if (at <= 0 || f->n_pairs == MAX_PAIRS)
			return false;
		key = span_first(value, (size_t)at);
		value = span_skip(value, (size_t)at + 1);
		if (!decode_part(r, key, &f->pairs[f->n_pairs].key) ||
		    !decode_part(r, value, &f->pairs[f->n_pairs].value))
			return false;
		f->n_pairs++;
	}
	return true;
}

static bool has_pair(const json_t *metadata, struct span key, struct span value)
{
	json_t *v = json_object_getn(metadata, key.p, key.len);

	return v != NULL && span_eq(span_of(json_string_value(v), json_string_length(v)), value);
}

static bool matches(const struct sandbox *sb, const struct filter *f)
{
	if (f->by_state ? (f->states & 1u << sb->state) == 0 : sandbox_ended(sb) && sb->rec.hidden)
		return false;
	for (unsigned i = 0; i < f->n_pairs; i++)
		if (!has_pair(sb->metadata, f->pairs[i].key, f->pairs[i].value))
			return false;
	return true;
}

/* All that live, and those of the ended that show. */
static int64_t count_visible(const struct manager *m)
{
	int64_t n = m->n_live;

	list_for_each (it, &m->ended)
		n += !LIST_ENTRY(it, struct sandbox, ended_link)->rec.hidden;
	return n;
}

void route_list(struct http_req *r)
{
	struct manager *m = &api_server(r)->manager;
	struct filter *f = arena_zalloc(&r->arena, sizeof(*f));
	struct buf out = BUF_INIT(API_MAX_PAGE * SANDBOX_MAX_JSON + KIB(1));
	struct jw w = JW_INIT(&out);
	int64_t page, size, seen = 0;

	if (f == NULL) {
		api_error(r, E_INTERNAL, "out of memory");
		return;
	}
	if (!api_paging(r, &page, &size) || !read_states(r, f))
		return;
	if (!read_metadata(r, f)) {
		api_error(r, E_INVALID_METADATA_FILTER, "metadata must be of the form k=v&k2=v2");
		return;
	}
	if (r->arena.starved) { /* a filter that was not understood would let all through */
		api_error(r, E_INTERNAL, "out of memory");
		return;
	}
	jw_object(&w);
	jw_key(&w, "items");
	jw_array(&w);
	list_for_each (it, &m->all) {
		const struct sandbox *sb = LIST_ENTRY(it, struct sandbox, link);

		/* without a filter the rest need not be looked at to be counted */
		if (seen == page * size && !f->by_state && f->n_pairs == 0) {
			seen = count_visible(m);
			break;
		}
		if (!matches(sb, f))
			continue;
		if (seen >= (page - 1) * size && seen < page * size)
			sandbox_write(sb, true, &w);
		seen++;
	}
	jw_end(&w);
	api_pagination(&w, page, size, seen);
	jw_end(&w);
	api_json(r, 200, &out);
}
