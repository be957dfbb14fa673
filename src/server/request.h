/* Reading what clients send: JSON bodies and query parameters, leniently where the official clients
 * are sloppy, strictly where it matters. */
#ifndef OSB_SERVER_REQUEST_H
#define OSB_SERVER_REQUEST_H

#include "codec/json.h"
#include "server/errors.h"

/* Why a request is refused, and where in it the fault lies. */
struct refusal {
	enum error error;
	char where[96]; /* "body.volumes.0.name"; "" if no single place is to blame */
	char why[220];
};

/* All return false, so that `return refuse(...)` reads well. */
bool refuse(struct refusal *rf, enum error error, const char *fmt, ...) PRINTF(3, 4);
/* 422, with the place. */
bool refuse_at(struct refusal *rf, const char *where, const char *fmt, ...) PRINTF(3, 4);

/* A member by its camelCase name or its snake_case one; NULL if absent or null. */
json_t *request_member(const json_t *obj, const char *camel);

/* Members of a known type. `*ret` stays as it was when the member is absent. `where` is the place
 * of the object. False: refused. */
bool request_string(const json_t *obj, const char *where, const char *name, const char **ret,
		    struct refusal *rf);
bool request_bool(const json_t *obj, const char *where, const char *name, bool *ret,
		  struct refusal *rf);
bool request_object(const json_t *obj, const char *where, const char *name, json_t **ret,
		    struct refusal *rf);
bool request_array(const json_t *obj, const char *where, const char *name, json_t **ret,
		   struct refusal *rf);
/* An integer, or a string of digits. */
bool request_integer(const json_t *obj, const char *where, const char *name, int64_t min,
		     int64_t max, int64_t *ret, struct refusal *rf);
/* Every value a string; null ones allowed if `nulls`. */
bool request_strings_only(const json_t *map, const char *where, bool nulls, struct refusal *rf);

/* "true", "1", "yes", "on", "t", "y" and their opposites, any case. */
bool request_flag(struct span text, bool *ret);
/* Blanks around, a plus sign, leading zeros and ".0" are borne. */
bool request_number(struct span text, int64_t min, int64_t max, int64_t *ret);

#endif
