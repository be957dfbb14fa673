#include "sandbox/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/span.h"
#include "base/util.h"
#include "sys/fsat.h"

/* Nowhere a sandbox has business by default: this host, its network, the neighbours, the cloud
 * provider's metadata services (169.254.169.254, 100.100.100.200, fd00:ec2::254), and ways to
 * spell such addresses as public ones (::/8 holds the mapped and the NAT64 forms). */
static const char closed4[] =
	"0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, "
	"192.0.0.0/24, 192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3";
static const char closed6[] = "::/8, 100::/64, 2001::/32, 2002::/16, fc00::/7, "
			      "fe80::/10, fec0::/10, ff00::/8";

static const char rules[] =
	"table inet %1$s {\n"
	"	set closed4 { type ipv4_addr; flags interval; elements = { %4$s } }\n"
	"	set closed6 { type ipv6_addr; flags interval; elements = { %5$s } }\n"
	"	set open4 { type ipv4_addr; flags interval; }\n"
	"	set open6 { type ipv6_addr; flags interval; }\n"
	"	set dns4 { type ipv4_addr; }\n"
	"	set dns6 { type ipv6_addr; }\n"
	"%8$s"
	/* a source that is not routed back to where it came from is forged */
	"	chain source {\n"
	"		type filter hook prerouting priority raw; policy accept;\n"
	"		iifname \"osb%2$s.*\" fib saddr . iif oif 0 drop\n"
	"	}\n"
	/* to the host itself: neighbour discovery, and answers to what the host began */
	"	chain host {\n"
	"		type filter hook input priority filter - 1; policy accept;\n"
	"		iifname != \"osb%2$s.*\" accept\n"
	"		ct state established,related accept\n"
	"		icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept\n"
	"		reject with icmpx admin-prohibited\n"
	"	}\n"
	"	chain through {\n"
	"		type filter hook forward priority filter - 1; policy accept;\n"
	"		oifname \"osb%2$s.*\" ct state established,related accept\n"
	"		iifname \"osb*\" oifname \"osb%2$s.*\" reject with icmpx admin-prohibited\n"
	"		oifname \"osb%2$s.*\" drop\n"
	"		iifname != \"osb%2$s.*\" accept\n"
	"		oifname \"osb*\" reject with icmpx admin-prohibited\n"
	"		ct state invalid drop\n"
	"%7$s"
	"		ip daddr @dns4 meta l4proto { tcp, udp } th dport 53 accept\n"
	"		ip6 daddr @dns6 meta l4proto { tcp, udp } th dport 53 accept\n"
	"		ip daddr @open4 accept\n"
	"		ip6 daddr @open6 accept\n"
	"		ip daddr @closed4 reject with icmpx admin-prohibited\n"
	"		ip6 daddr @closed6 reject with icmpx admin-prohibited\n"
	"	}\n"
	"	chain translate {\n"
	"		type nat hook postrouting priority srcnat; policy accept;\n"
	"		ip saddr %3$s oifname != \"osb*\" masquerade\n"
	"		ip6 saddr %6$s oifname != \"osb*\" masquerade\n"
	"	}\n"
	"}\n";

/* The host has one table of connections for all. A sandbox may have this many in it; what would be
 * one more is refused before it gets there. Not every kernel can count them. */
static const char count_set[] = "	set flows { type ifname; size 65535; flags dynamic; }\n";
static const char count_rule[] =
	"		ct state new add @flows { iifname ct count over 8192 } "
	"reject with icmpx admin-prohibited\n";

void nft_table_name(const struct net *n, char out[NFT_NAME_SIZE])
{
	(void)snprintf(out, NFT_NAME_SIZE, "opensandbox_%s", n->tag);
}

int nft_write(struct buf *b, const struct net *n, const struct nft_policy *p, bool count,
	      struct err *e)
{
	char name[NFT_NAME_SIZE], pool4[64], pool6[64], text[INET6_ADDRSTRLEN];

	nft_table_name(n, name);
	(void)inet_ntop(AF_INET, &n->pool4, text, sizeof(text));
	(void)snprintf(pool4, sizeof(pool4), "%s/16", text);
	(void)inet_ntop(AF_INET6, &n->pool6, text, sizeof(text));
	(void)snprintf(pool6, sizeof(pool6), "%s/64", text);

	/* added, then deleted: works whether or not it was there. All in one transaction. */
	(void)buf_printf(b, "table inet %s\ndelete table inet %s\n", name, name);
	(void)buf_printf(b, rules, name, n->tag, pool4, closed4, closed6, pool6,
			 count ? count_rule : "", count ? count_set : "");
	for (unsigned i = 0; i < n->n_dns; i++)
		(void)buf_printf(b, "add element inet %s dns%c { %s }\n", name,
				 strchr(n->dns_text[i], ':') != NULL ? '6' : '4', n->dns_text[i]);
	for (unsigned i = 0; i < p->n_open; i++) {
		if (!netaddr_is_network(p->open[i]))
			return err_set(e, EINVAL, "'%s' is not a network", p->open[i]);
		(void)buf_printf(b, "add element inet %s open%c { %s }\n", name,
				 strchr(p->open[i], ':') != NULL ? '6' : '4', p->open[i]);
	}
	return buf_failed(b) ? err_code(e, ENOMEM, "write the filter") : 0;
}

/* Hand a script to nft(8). Words of an error come back in e. */
static int run_nft(struct span script, pid_t *ret_pid, struct err *e)
{
	static const char *const places[] = { "/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft" };
	char *argv[] = { (char[]){ "nft" }, (char[]){ "-f" }, (char[]){ "-" }, NULL };
	char *envp[] = { NULL };
	autofd int in = -EBADF, out = -EBADF;
	char words[160] = "", *said;
	int status, r;
	ssize_t n;
	pid_t pid;

	in = memfd_create("nft", MFD_CLOEXEC);
	out = memfd_create("nft-errors", MFD_CLOEXEC);
	if (in < 0 || out < 0)
		return err_sys(e, "make room for the filter");
	r = fsat_write_all(in, script.p, script.len);
	if (r < 0 || lseek(in, 0, SEEK_SET) < 0)
		return err_code(e, r < 0 ? r : errno, "write the filter");
	pid = fork();
	if (pid < 0)
		return err_sys(e, "start nft");
	if (pid == 0) {
		if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
			_exit(126);
		for (size_t i = 0; i < ARRAY_LEN(places); i++)
			(void)execve(places[i], argv, envp);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for nft");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		*ret_pid = pid;
		return 0;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return err_set(e, ENOENT, "the nft program is not installed");
	n = pread(out, words, sizeof(words) - 1, 0);
	words[n > 0 ? n : 0] = '\0';
	said = words + strspn(words, "\n");
	said[strcspn(said, "\n")] = '\0';
	if (said[0] == '\0') /* of a rule it would say what is wrong with it */
		return err_set(e, EAGAIN, "nft failed without a word, wait status %d", status);
	return err_set(e, EIO, "nft refuses the filter: %s", said);
}

#define TRIES 3

static int run_nft_again(struct span script, pid_t *ret_pid, struct err *e)
{
	int r = -EAGAIN;

	for (int i = 0; r == -EAGAIN && i < TRIES; i++)
		r = run_nft(script, ret_pid, e);
	return r;
}

int nft_install(const struct net *n, const struct nft_policy *p, pid_t *ret_pid, struct err *e)
{
	int r = -EIO;

	for (int count = 1; r == -EIO && count >= 0; count--) {
		struct buf b = BUF_INIT(KIB(64));

		r = nft_write(&b, n, p, count != 0, e);
		if (r == 0)
			r = run_nft_again(buf_span(&b), ret_pid, e);
		buf_free(&b);
	}
	return r;
}

int nft_remove(const struct net *n, struct err *e)
{
	struct buf b = BUF_INIT(KIB(1));
	char name[NFT_NAME_SIZE];
	pid_t pid;
	int r;

	nft_table_name(n, name);
	(void)buf_printf(&b, "table inet %s\ndelete table inet %s\n", name, name);
	r = run_nft_again(buf_span(&b), &pid, e);
	buf_free(&b);
	return r;
}
