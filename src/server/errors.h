/* Every way to say no: one row each, with the HTTP status and the code that clients see. The page
 * docs/server.md lists them from this table (opensandbox-server error-docs). */
#ifndef OSB_SERVER_ERRORS_H
#define OSB_SERVER_ERRORS_H

#include "base/buf.h"

#define ERRORS(X)                                                                               \
	X(OK, 200, "", "")                                                                      \
	/* what the HTTP layer refuses */                                                       \
	X(BAD_REQUEST, 400, "BAD_REQUEST", "the request cannot be understood")                  \
	X(NOT_FOUND, 404, "NOT_FOUND", "no such path")                                          \
	X(METHOD_NOT_ALLOWED, 405, "METHOD_NOT_ALLOWED", "the path has other methods")          \
	X(REQUEST_TIMEOUT, 408, "REQUEST_TIMEOUT", "the request did not arrive in time")        \
	X(TOO_LARGE, 413, "PAYLOAD_TOO_LARGE", "the body is larger than accepted")              \
	X(URI_TOO_LONG, 414, "URI_TOO_LONG", "the request target is too long")                  \
	X(UNSUPPORTED, 417, "EXPECTATION_FAILED", "an expectation that is not known")           \
	X(HEAD_TOO_LARGE, 431, "HEADERS_TOO_LARGE", "the head is larger than accepted")         \
	X(INTERNAL, 500, "INTERNAL_ERROR", "a fault of the server")                             \
	X(NOT_IMPLEMENTED, 501, "NOT_IMPLEMENTED", "not offered here")                          \
	X(BAD_VERSION, 505, "HTTP_VERSION_NOT_SUPPORTED", "HTTP/1.0 and 1.1 are spoken")        \
	X(INVALID_REQUEST, 422, "INVALID_REQUEST",                                              \
	  "the body or a parameter breaks the schema; "                                         \
	  "`detail` names the place")                                                           \
	X(OVERLOADED, 503, "OVERLOADED", "too much is under way; try again")                    \
	/* who may */                                                                           \
	X(MISSING_API_KEY, 401, "MISSING_API_KEY", "OPEN-SANDBOX-API-KEY is missing")           \
	X(INVALID_API_KEY, 401, "INVALID_API_KEY", "OPEN-SANDBOX-API-KEY is wrong")             \
	X(BAD_HOST, 403, "FORBIDDEN_HOST",                                                      \
	  "a server without a key answers to loopback names only")                              \
	X(MISSING_TOKEN, 401, "MISSING_ACCESS_TOKEN",                                           \
	  "a header that the endpoint route returned is missing or wrong")                      \
	/* sandboxes */                                                                         \
	X(SANDBOX_NOT_FOUND, 404, "SANDBOX::NOT_FOUND", "no such sandbox, or it has ended")     \
	X(INVALID_PARAMETER, 400, "SANDBOX::INVALID_PARAMETER", "a value cannot be accepted")   \
	X(INVALID_LIMIT, 400, "SANDBOX::INVALID_RESOURCE_LIMIT",                                \
	  "a resource limit that is unknown, unreadable or cannot be held here")                \
	X(INVALID_METADATA, 400, "SANDBOX::INVALID_METADATA_LABEL",                             \
	  "not a valid label, or more than 64 KiB of them")                                     \
	X(INVALID_METADATA_FILTER, 400, "INVALID_METADATA_FORMAT", "the filter is not k=v&k=v") \
	X(INVALID_EXPIRATION, 400, "SANDBOX::INVALID_EXPIRATION", "not in the future")          \
	X(NO_EXPIRATION, 409, "SANDBOX::INVALID_EXPIRATION", "the sandbox never expires")       \
	X(NOT_RUNNING, 409, "SANDBOX::NOT_RUNNING", "pause needs a running sandbox")            \
	X(NOT_PAUSED, 409, "SANDBOX::NOT_PAUSED", "resume needs a paused sandbox")              \
	X(INVALID_STATE, 409, "SANDBOX::INVALID_STATE", "not in this state")                    \
	X(IMAGE_NOT_FOUND, 404, "SANDBOX::IMAGE_NOT_FOUND", "no image of that name here")       \
	X(UNSUPPORTED_POOL_REF, 400, "SANDBOX::UNSUPPORTED_POOL_REF", "there are no pools")     \
	X(UNSUPPORTED_POLICY, 400, "SANDBOX::NETWORK_POLICY_NOT_SUPPORTED",                     \
	  "a network policy would not be enforced, so it is refused")                           \
	X(UNSUPPORTED_VAULT, 400, "SANDBOX::CREDENTIAL_PROXY_NOT_SUPPORTED",                    \
	  "credentials would not be injected, so it is refused")                                \
	X(UNSUPPORTED_API, 400, "SANDBOX::API_NOT_SUPPORTED", "not offered by this runtime")    \
	X(UNSUPPORTED_PAUSE, 400, "SANDBOX::PAUSE_NOT_SUPPORTED", "this host has no freezer")   \
	X(INVALID_PORT, 400, "SANDBOX::INVALID_PORT", "not between 1 and 65535")                \
	X(START_FAILED, 500, "SANDBOX::START_FAILED", "the sandbox could not be started")       \
	X(START_TIMEOUT, 504, "SANDBOX::START_TIMEOUT", "execd did not answer in time")         \
	X(PAUSE_FAILED, 500, "SANDBOX::PAUSE_FAILED", "the runtime could not pause it")         \
	X(RESUME_FAILED, 500, "SANDBOX::RESUME_FAILED", "the runtime could not resume it")      \
	X(DELETE_FAILED, 500, "SANDBOX::DELETE_FAILED", "the runtime could not delete it")      \
	X(STORE_FAILED, 500, "SANDBOX::STORE_FAILED", "the change could not be recorded")       \
	X(RUNTIME_DOWN, 503, "SANDBOX::RUNTIME_UNAVAILABLE", "the runtime cannot be reached")   \
	X(NO_CAPACITY, 503, "SANDBOX::NO_CAPACITY", "no room for another sandbox")              \
	/* volumes */                                                                           \
	X(VOLUME_DUPLICATE, 400, "VOLUME::DUPLICATE_NAME", "two volumes of one name")           \
	X(VOLUME_MOUNT_PATH, 400, "VOLUME::INVALID_MOUNT_PATH", "not a clean absolute path")    \
	X(VOLUME_SUB_PATH, 400, "VOLUME::INVALID_SUB_PATH", "not a relative path below")        \
	X(VOLUME_BACKEND, 400, "VOLUME::UNSUPPORTED_BACKEND", "this backend is not offered")    \
	X(VOLUME_HOST_PATH, 400, "VOLUME::INVALID_HOST_PATH", "not a clean absolute path")      \
	X(VOLUME_NOT_ALLOWED, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",                             \
	  "not at or below a path of storage.allowed_host_paths")                               \
	X(VOLUME_HOST_MISSING, 400, "VOLUME::HOST_PATH_NOT_FOUND", "no such directory")         \
	X(VOLUME_MISSING, 400, "VOLUME::PVC_NOT_FOUND", "no such volume")                       \
	X(VOLUME_SIZE, 400, "VOLUME::INVALID_STORAGE",                                          \
	  "no size, too small, or not the one that the volume has")                             \
	X(VOLUME_FAILED, 500, "VOLUME::CREATE_FAILED", "the volume could not be made")          \
	/* what is not there yet */                                                             \
	X(SNAPSHOT_NOT_IMPLEMENTED, 501, "SNAPSHOT::NOT_IMPLEMENTED", "no snapshots here")      \
	X(SNAPSHOT_NOT_FOUND, 404, "SNAPSHOT::NOT_FOUND", "no such snapshot")                   \
	X(POOL_NOT_SUPPORTED, 501, "KUBERNETES::POOL_NOT_SUPPORTED", "no pools here")           \
	X(POLICY_FIXED, 501, "POLICY::NOT_IMPLEMENTED", "the policy cannot be changed")         \
	X(VAULT_NOT_IMPLEMENTED, 501, "CREDENTIAL_VAULT::NOT_IMPLEMENTED", "there is no vault") \
	/* the gateway */                                                                       \
	X(UPSTREAM_FAILED, 502, "GATEWAY::UPSTREAM_UNREACHABLE",                                \
	  "nothing answers at that port of the sandbox")                                        \
	X(UPSTREAM_TIMEOUT, 504, "GATEWAY::UPSTREAM_TIMEOUT", "it did not answer in time")      \
	X(SANDBOX_NOT_READY, 409, "GATEWAY::SANDBOX_NOT_RUNNING", "paused, starting or ended")

enum error {
#define ERROR_ENUM(name, status, code, doc) E_##name,
	ERRORS(ERROR_ENUM)
#undef ERROR_ENUM
		E_COUNT
};

int error_status(enum error e);
const char *error_code(enum error e);
const char *error_doc(enum error e);

/* The row for an answer that the HTTP layer gives by itself. */
enum error error_of_status(int status);

/* The table as Markdown. */
void error_docs(struct buf *out);

#endif
