/* Structured log lines on stderr (or wherever log_open points), one JSON object or one plain line
 * each. Libraries log at debug only; the edge that handles an error logs it once.
 *
 *	log_info("sandbox started", { "id", id }, { "image", image });
 *
 * Values are strings and are escaped here, so that bytes a client chose cannot forge a line. */
#ifndef OSB_BASE_LOG_H
#define OSB_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

void log_setup(const char *program, enum log_level max, enum log_format format);
void log_set_fd(int fd); /* default 2; the caller keeps it open */
bool log_enabled(enum log_level level);
bool log_parse_level(const char *name, enum log_level *ret);

/* One field: key and an already formatted value. */
struct log_field {
	const char *key;
	const char *value;
};

void log_write(enum log_level level, const char *msg, const struct log_field *fields, unsigned n);

/* log_at(LOG_INFO, "message", { "id", id }, { "state", state }); values are strings */
#define log_at(level, msg, ...)                                                       \
	do {                                                                          \
		if (log_enabled(level)) {                                             \
			const struct log_field fields_[] = { { 0, 0 }, __VA_ARGS__ }; \
			log_write(level, msg, fields_ + 1,                            \
				  sizeof(fields_) / sizeof(fields_[0]) - 1);          \
		}                                                                     \
	} while (0)
#define log_error(msg, ...) log_at(LOG_ERROR, msg, ##__VA_ARGS__)
#define log_warn(msg, ...)  log_at(LOG_WARN, msg, ##__VA_ARGS__)
#define log_info(msg, ...)  log_at(LOG_INFO, msg, ##__VA_ARGS__)
#define log_debug(msg, ...) log_at(LOG_DEBUG, msg, ##__VA_ARGS__)

#endif
