#include "io/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

struct tls_context {
	SSL_CTX *ssl;
};

static int err_openssl(struct err *e, const char *what, const char *file)
{
	char why[160] = "unknown reason";
	unsigned long code = ERR_get_error();

	if (code != 0)
		ERR_error_string_n(code, why, sizeof(why));
	ERR_clear_error();
	return err_set(e, EINVAL, "%s '%s': %s", what, file, why);
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			   const unsigned char *in, unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)ssl;
	(void)arg;
	/* OpenSSL's prototype lacks the const that its contract has */
	if (SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, ours, sizeof(ours) - 1,
				  in, in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

int tls_context_new(const char *cert_file, const char *key_file, struct tls_context **ret,
		    struct err *e)
{
	struct tls_context *c = calloc(1, sizeof(*c));
	int r = 0;

	if (c == NULL)
		return err_code(e, ENOMEM, "TLS context");
	c->ssl = SSL_CTX_new(TLS_server_method());
	if (c->ssl == NULL) {
		free(c);
		return err_code(e, ENOMEM, "TLS context");
	}
	(void)SSL_CTX_set_min_proto_version(c->ssl, TLS1_2_VERSION);
	(void)SSL_CTX_set_options(c->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
						  SSL_OP_CIPHER_SERVER_PREFERENCE);
	(void)SSL_CTX_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
					       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					       SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_alpn_select_cb(c->ssl, choose_protocol, NULL);
	if (SSL_CTX_use_certificate_chain_file(c->ssl, cert_file) != 1)
		r = err_openssl(e, "TLS certificate", cert_file);
	else if (SSL_CTX_use_PrivateKey_file(c->ssl, key_file, SSL_FILETYPE_PEM) != 1)
		r = err_openssl(e, "TLS key", key_file);
	else if (SSL_CTX_check_private_key(c->ssl) != 1)
		r = err_openssl(e, "TLS key does not fit the certificate", cert_file);
	if (r < 0) {
		tls_context_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void tls_context_free(struct tls_context *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->ssl);
	free(c);
}

/* What a failed call means; notes when the other direction must become ready first. */
static ssize_t outcome(struct stream *s, int r, unsigned direction)
{
	int why = SSL_get_error(s->secure, r);

	s->cross &= (unsigned char)~direction;
	ERR_clear_error();
	switch (why) {
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_WANT_READ:
		if (direction == STREAM_WRITABLE)
			s->cross |= STREAM_WRITABLE;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		if (direction == STREAM_READABLE)
			s->cross |= STREAM_READABLE;
		return -EAGAIN;
	default:
		/* A cut connection is not an orderly end: the body may be short. */
		return -ECONNRESET;
	}
}

static ssize_t tls_read(struct stream *s, void *buf, size_t len)
{
	size_t total = 0;

	/* Until OpenSSL has nothing buffered: bytes it holds do not wake the poll handle. */
	while (total < len) {
		int n = SSL_read(s->secure, (char *)buf + total, (int)MIN(len - total, INT_MAX));

		if (n > 0) {
			s->cross &= (unsigned char)~STREAM_READABLE;
			total += (size_t)n;
			continue;
		}
		ssize_t r = outcome(s, n, STREAM_READABLE);

		return total > 0 ? (ssize_t)total : r;
	}
	return (ssize_t)total;
}

static ssize_t tls_writev(struct stream *s, const struct iovec *iov, int n_iov)
{
	size_t total = 0;

	for (int i = 0; i < n_iov; i++) {
		size_t done = 0;

		while (done < iov[i].iov_len) {
			int n = SSL_write(s->secure, (char *)iov[i].iov_base + done,
					  (int)MIN(iov[i].iov_len - done, INT_MAX));

			if (n <= 0) {
				ssize_t r = outcome(s, n, STREAM_WRITABLE);

				if (r == 0)
					r = -EPIPE;
				return total > 0 ? (ssize_t)total : r;
			}
			s->cross &= (unsigned char)~STREAM_WRITABLE;
			done += (size_t)n;
			total += (size_t)n;
		}
	}
	return (ssize_t)total;
}

static ssize_t tls_sendfile(struct stream *s, int fd, off_t *offset, size_t len)
{
	(void)s;
	(void)fd;
	(void)offset;
	(void)len;
	return -ENOSYS;
}

static int tls_shutdown(struct stream *s)
{
	int r = SSL_shutdown(s->secure);

	if (r >= 0)
		return stream_plain_ops.shutdown(s);
	return outcome(s, r, STREAM_WRITABLE) == -EAGAIN ? -EAGAIN : -EPIPE;
}

static void tls_free(struct stream *s)
{
	SSL_free(s->secure);
	s->secure = NULL;
	ERR_clear_error();
}

static const struct stream_ops tls_ops = {
	.read = tls_read,
	.writev = tls_writev,
	.sendfile = tls_sendfile,
	.shutdown = tls_shutdown,
	.free = tls_free,
};

int tls_stream_accept(struct tls_context *c, struct stream *s, struct err *e)
{
	SSL *ssl = SSL_new(c->ssl);

	if (ssl == NULL || SSL_set_fd(ssl, s->fd) != 1) {
		SSL_free(ssl);
		return err_code(e, ENOMEM, "TLS connection");
	}
	SSL_set_accept_state(ssl);
	s->secure = ssl;
	s->ops = &tls_ops;
	return 0;
}
