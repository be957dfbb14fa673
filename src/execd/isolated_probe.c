/* GET /v1/isolated/capabilities: can it be done here? Found out by trying, once, in both ways. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "execd/api.h"
#include "execd/isolated.h"
#include "execd/launch.h"

struct probe {
	struct isolated *all;
	struct launch launch;
	bool userns;
};

struct waiter {
	struct list link;
	struct http_req *req;
};

static void tell_capabilities(const struct isolated *all, struct http_req *r)
{
	bool available = all->setpriv || all->userns;
	struct buf out = BUF_INIT(KIB(4));
	struct jw w = JW_INIT(&out);

	jw_object(&w);
	jw_field_bool(&w, "available", available);
	if (available) {
		jw_field_cstr(&w, "isolator", "namespaces");
		jw_field_cstr(&w, "version", OSB_VERSION);
	} else {
		jw_field_cstr(&w, "message", all->why_not);
	}
	jw_field_bool(&w, "setpriv_available", all->setpriv);
	jw_field_bool(&w, "userns_available", all->userns);
	jw_field_bool(&w, "commit_supported", false);
	jw_field_bool(&w, "diff_supported", false);
	jw_end(&w);
	api_json(r, 200, &out);
}

static void probe_ready(struct launch *l, char kind, const char *words)
{
	struct probe *p = l->user;

	if (kind == 0)
		*(p->userns ? &p->all->userns : &p->all->setpriv) = true;
	else
		(void)snprintf(p->all->why_not, sizeof(p->all->why_not), "%s", words);
}

static void probe_over(struct isolated *all)
{
	if (--all->probes > 0)
		return;
	all->probed = true;
	while (!list_empty(&all->waiting)) {
		struct waiter *w = LIST_FIRST(&all->waiting, struct waiter, link);

		list_remove(&w->link);
		tell_capabilities(all, w->req);
	}
}

static void probe_gone(struct launch *l)
{
	struct probe *p = l->user;
	struct isolated *all = p->all;

	free(p);
	probe_over(all);
}

static void probe_start(struct isolated *all, bool userns)
{
	struct span plan = userns ? SPAN_LIT("{\"probe\":true,\"userns\":true}")
				  : SPAN_LIT("{\"probe\":true}");
	struct probe *p = calloc(1, sizeof(*p));
	struct err e = ERR_INIT;

	all->probes++;
	if (p == NULL) {
		probe_over(all);
		return;
	}
	p->all = all;
	p->userns = userns;
	p->launch.user = p;
	p->launch.ready = probe_ready;
	p->launch.gone = probe_gone;
	if (launch_start(all->x, &p->launch, plan, SPAN_LIT("{}"), -EBADF, &e) < 0) {
		(void)snprintf(all->why_not, sizeof(all->why_not), "%s", e.msg);
		free(p);
		probe_over(all);
	}
}

static void waiter_done(struct http_req *r)
{
	struct waiter *w = r->user;

	list_remove(&w->link);
}

void isolated_capabilities(struct http_req *r)
{
	struct isolated *all = isolated_of(r);
	struct waiter *w;

	if (all == NULL)
		return;
	if (all->probed) {
		tell_capabilities(all, r);
		return;
	}
	w = arena_zalloc(&r->arena, sizeof(*w));
	if (w == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	w->req = r;
	r->user = w;
	r->done = waiter_done;
	list_push_back(&all->waiting, &w->link);
	if (all->probes == 0) {
		all->probes = 1; /* ours, until both are on their way */
		probe_start(all, false);
		probe_start(all, true);
		probe_over(all);
	}
}
