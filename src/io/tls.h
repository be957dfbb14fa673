/* TLS, server side, behind the stream face (OpenSSL). Not part of what execd links. */
#ifndef OSB_IO_TLS_H
#define OSB_IO_TLS_H

#include "base/err.h"
#include "io/stream.h"

struct tls_context; /* one per certificate, shared by its connections */

/* PEM files; TLS 1.2 and newer; ALPN answers "http/1.1". */
int tls_context_new(const char *cert_file, const char *key_file, struct tls_context **ret,
		    struct err *e);
void tls_context_free(struct tls_context *c);

/* Turn an opened, plain stream into a TLS one. The handshake happens within the first reads. */
int tls_stream_accept(struct tls_context *c, struct stream *s, struct err *e);

#endif
