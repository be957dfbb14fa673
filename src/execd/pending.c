/* Routes whose files are still to come answer that; each definition gives way to the real one. */
#include "execd/api.h"

#define PENDING(name)                                                                         \
	__attribute__((weak)) void name(struct http_req *r)                                   \
	{                                                                                     \
		api_error(r, 501, API_NOT_SUPPORTED, "this route is not supported here yet"); \
	}

PENDING(command_run)
PENDING(command_interrupt) PENDING(command_status) PENDING(command_logs) PENDING(
	session_create) PENDING(session_run) PENDING(session_delete) PENDING(logs_get)
	PENDING(code_run) PENDING(code_context_create) PENDING(code_contexts_list) PENDING(
		code_contexts_delete) PENDING(code_context_get) PENDING(code_context_delete)
		PENDING(files_info) PENDING(files_delete) PENDING(files_permissions) PENDING(
			files_mv) PENDING(files_replace) PENDING(files_search) PENDING(files_upload)
			PENDING(files_download) PENDING(directories_list) PENDING(
				directories_make) PENDING(directories_delete) PENDING(metrics_get)
				PENDING(metrics_watch) PENDING(pty_create) PENDING(pty_get) PENDING(
					pty_delete) PENDING(pty_ws) PENDING(proxy_handle)
					PENDING(isolated_capabilities) PENDING(isolated_create)
						PENDING(isolated_get) PENDING(isolated_delete)
							PENDING(isolated_run) PENDING(isolated_diff)
								PENDING(isolated_commit)
									PENDING(isolated_files)
