"""Requests that a strict server must refuse, survive or, now and then, accept; pure data.

Each entry of CASES has
  name    unique, in words
  send    what the client sends: bytes, or a function that gives an iterator of bytes
  expect  the status of the answer; a list of them if several are due; CLOSE for an end of the
          connection without a byte
  keep    the connection serves another request afterwards; otherwise the server must close it, and
          send nothing further
  then    what the client does when all is sent: "read" (the default); "shut", half-close and read;
          "reset", break the connection without reading (nothing is expected then)
  drip    bytes go out one by one, with a little time in between
  code    for WebSockets: the code of the close frame that must follow the 101

The server under test has GET / and takes bodies at POST /upload, small ones (up to 64 KiB) at
/echo-small; it answers WebSockets at /ws-echo. Its limits are 8 KiB of target, 32 KiB of head, 100
fields; its timeouts are short.
"""

CLOSE = "close"

CASES = []


def case(name, send, expect, **more):
    CASES.append({"name": name, "send": send, "expect": expect, "keep": False, "then": "read",
                  "drip": False, "code": None, **more})


def get(line=b"GET / HTTP/1.1", *fields, host=b"Host: a"):
    lines = [line] + ([host] if host is not None else []) + list(fields)
    return b"".join(part + b"\r\n" for part in lines) + b"\r\n"


def post(*fields, body=b"", path=b"/upload"):
    return get(b"POST " + path + b" HTTP/1.1", *fields) + body


def chunked(body, path=b"/upload"):
    return post(b"Transfer-Encoding: chunked", body=body, path=path)


NEXT = get()  # a request behind the hostile one: it must never be answered

# --- honest, if unusual ---

case("plain", get(), 200, keep=True)
case("lower-case field names", get(host=b"host:a"), 200, keep=True)
case("absolute form", get(b"GET http://other:80/ HTTP/1.1"), 200, keep=True)
case("absolute form without a path", get(b"GET http://other HTTP/1.1"), 200, keep=True)
case("empty lines before the request", b"\r\n\r\n" + get(), 200, keep=True)
case("bytes above ASCII in a value", get(b"GET / HTTP/1.1", b"X: \xc3\xa4\xff"), 200, keep=True)
case("IPv6 host", get(host=b"Host: [::1]:8080"), 200, keep=True)
case("two requests at once", get() + get(), [200, 200], keep=True)
case("good and bad at once", get() + b"GET / HTTP/9.9\r\n\r\n" + NEXT, [200, 505])
case("body and next request at once", post(b"Content-Length: 2", body=b"hi") + get(), [200, 200],
     keep=True)
case("chunks and next request at once", chunked(b"2\r\nhi\r\n0\r\n\r\n") + get(), [200, 200],
     keep=True)
case("chunk that looks like a request", chunked(b"%x\r\n%s\r\n0\r\n\r\n" % (len(NEXT), NEXT)), 200,
     keep=True)
case("h2c offered", get(b"GET / HTTP/1.1", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c",
                        b"HTTP2-Settings: AAMAAABkAAQAAP__"), 200, keep=True)
case("HTTP/1.0 without host", get(b"GET / HTTP/1.0", host=None), 200)
case("HTTP/1.0 kept alive", get(b"GET / HTTP/1.0", b"Connection: keep-alive"), 200, keep=True)
case("half-closed after the request", get(), 200, then="shut")

# --- how long is the body? ---

LENGTH_AND_CHUNKED = (b"Content-Length: 5", b"Transfer-Encoding: chunked")
case("length, then chunked", post(*LENGTH_AND_CHUNKED, body=b"0\r\n\r\n" + NEXT), 400)
case("chunked, then length", post(*LENGTH_AND_CHUNKED[::-1], body=b"0\r\n\r\n" + NEXT), 400)
case("two lengths", post(b"Content-Length: 5", b"Content-Length: 0", body=b"hello" + NEXT), 400)
case("two equal lengths", post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello" + NEXT),
     400)
case("list of lengths", post(b"Content-Length: 5, 5", body=b"hello" + NEXT), 400)
case("length with a plus", post(b"Content-Length: +5", body=b"hello" + NEXT), 400)
case("negative length", post(b"Content-Length: -1", body=NEXT), 400)
case("hexadecimal length", post(b"Content-Length: 0x5", body=b"hello" + NEXT), 400)
case("length with a blank within", post(b"Content-Length: 1 0", body=b"helloworld" + NEXT), 400)
case("empty length", post(b"Content-Length:", body=NEXT), 400)
case("length in words", post(b"Content-Length: five", body=b"hello" + NEXT), 400)
case("fractional length", post(b"Content-Length: 5.0", body=b"hello" + NEXT), 400)
case("length of 2^63", post(b"Content-Length: 9223372036854775808", body=NEXT), 400)
case("length of 2^64 + 5", post(b"Content-Length: 18446744073709551621", body=b"hello" + NEXT), 400)
case("length of a thousand digits", post(b"Content-Length: " + b"9" * 1000, body=NEXT), 400)
case("blank before the colon of the length", post(b"Content-Length : 5", body=b"hello" + NEXT), 400)
case("transfer coding gzip", post(b"Transfer-Encoding: gzip", body=NEXT), 501)
case("transfer codings gzip, chunked", post(b"Transfer-Encoding: gzip, chunked", body=NEXT), 501)
case("transfer codings chunked, identity",
     post(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n" + NEXT), 501)
case("transfer coding identity", post(b"Transfer-Encoding: identity", body=NEXT), 501)
case("transfer coding xchunked", post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + NEXT),
     501)
case("transfer coding in quotes", post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n" + NEXT),
     501)
case("transfer coding with a parameter",
     post(b"Transfer-Encoding: chunked;q=1", body=b"0\r\n\r\n" + NEXT), 501)
case("chunked twice", post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked",
                           body=b"0\r\n\r\n" + NEXT), 501)
case("chunked behind a vertical tab",
     post(b"Transfer-Encoding:\x0bchunked", body=b"0\r\n\r\n" + NEXT), 400)
case("chunked in HTTP/1.0", get(b"POST /upload HTTP/1.0", b"Transfer-Encoding: chunked")
     + b"0\r\n\r\n" + NEXT, 501)
case("folded transfer coding", post(b"Transfer-Encoding:", b" chunked", body=b"0\r\n\r\n" + NEXT),
     501)

# --- chunks ---

case("chunk extension", chunked(b"1;a=b\r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("chunk size with a blank", chunked(b"1 \r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("chunk size with a sign", chunked(b"+1\r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("negative chunk size", chunked(b"-1\r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("chunk size 0x1", chunked(b"0x1\r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("no chunk size", chunked(b"\r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("chunk size not hexadecimal", chunked(b"zz\r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("chunk size of 2^64", chunked(b"10000000000000000\r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("chunk size of 2^64 - 1", chunked(b"ffffffffffffffff\r\nx\r\n0\r\n\r\n" + NEXT), 400)
case("chunk size of endless zeros", chunked(b"0" * 100000), 400)
case("chunk size ended by LF", chunked(b"1\nx\r\n0\r\n\r\n" + NEXT), 400)
case("chunk longer than it says", chunked(b"1\r\nxy\r\n0\r\n\r\n" + NEXT), 400)
case("chunk ended by LF", chunked(b"1\r\nx\n0\r\n\r\n" + NEXT), 400)
case("trailer", chunked(b"0\r\nX: y\r\n\r\n" + NEXT), 400)
case("last chunk ended by LF", chunked(b"0\r\n\n" + NEXT), 400)
case("NUL in a chunk size", chunked(b"1\0\r\nx\r\n0\r\n\r\n" + NEXT), 400)

# --- lines and bytes ---

case("lines ended by LF", b"GET / HTTP/1.1\nHost: a\n\n", 400)
case("field ended by LF", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400)
case("LF for the last line", b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400)
case("bare CR in a value", get(b"GET / HTTP/1.1", b"X: a\rContent-Length: 5"), 400)
case("CR CR LF", b"GET / HTTP/1.1\r\r\nHost: a\r\r\n\r\r\n", 400)
case("NUL in the target", get(b"GET /\0 HTTP/1.1"), 400)
case("NUL in a field name", get(b"GET / HTTP/1.1", b"X\0: y"), 400)
case("NUL in a value", get(b"GET / HTTP/1.1", b"X: y\0z"), 400)
case("escape sequence in a value", get(b"GET / HTTP/1.1", b"X: \x1b[31m"), 400)
case("DEL in a value", get(b"GET / HTTP/1.1", b"X: \x7f"), 400)
case("folded value", get(b"GET / HTTP/1.1", b"X: a", b" b"), 400)
case("folded value with a tab", get(b"GET / HTTP/1.1", b"X: a", b"\tb"), 400)
case("blank before the first field", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400)
case("blank before a colon", get(host=b"Host : a"), 400)
case("no field name", get(b"GET / HTTP/1.1", b": x"), 400)
case("no colon", get(b"GET / HTTP/1.1", b"oops"), 400)
case("brackets in a field name", get(b"GET / HTTP/1.1", b"X[0]: y"), 400)
case("UTF-8 in a field name", get(b"GET / HTTP/1.1", b"X-\xc3\xa4: y"), 400)
case("three empty lines first", b"\r\n\r\n\r\n" + get(), 400)
case("TLS hello", b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(range(32)), 400)
case("garbage", bytes(range(128, 256)) + bytes(range(128)), 400)

# --- request line ---

case("no method", get(b" / HTTP/1.1"), 400)
case("method with a bracket", get(b"G[T / HTTP/1.1"), 400)
case("CONNECT", get(b"CONNECT a:80 HTTP/1.1"), 400)
case("TRACE", get(b"TRACE / HTTP/1.1"), 400)
case("tab for a blank", get(b"GET\t/\tHTTP/1.1"), 400)
case("two blanks", get(b"GET  / HTTP/1.1"), 400)
case("blank in the target", get(b"GET /a b HTTP/1.1"), 400)
case("blank behind the version", get(b"GET / HTTP/1.1 "), 400)
case("fragment in the target", get(b"GET /#a HTTP/1.1"), 400)
case("UTF-8 in the target", get(b"GET /\xc3\xa4 HTTP/1.1"), 400)
case("relative target", get(b"GET index.html HTTP/1.1"), 400)
case("asterisk with GET", get(b"GET * HTTP/1.1"), 400)
case("absolute form of another scheme", get(b"GET file:///etc/passwd HTTP/1.1"), 400)
case("absolute form with a password", get(b"GET http://u:p@a/ HTTP/1.1"), 400)
case("absolute form without a host", get(b"GET http:///x HTTP/1.1"), 400)
case("HTTP/0.9", b"GET /\r\n\r\n", 505)
case("HTTP/1.2", get(b"GET / HTTP/1.2"), 505)
case("HTTP/2.0", get(b"GET / HTTP/2.0"), 505)
case("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505)
case("lower-case version", get(b"GET / http/1.1"), 505)
case("version with a leading zero", get(b"GET / HTTP/1.01"), 505)

# --- Host ---

case("no host", get(host=None), 400)
case("two hosts", get(b"GET / HTTP/1.1", b"Host: b"), 400)
case("two equal hosts", get(b"GET / HTTP/1.1", b"Host: a"), 400)
case("empty host", get(host=b"Host:"), 400)
case("host with a path", get(host=b"Host: a/b"), 400)
case("host with a user", get(host=b"Host: u@a"), 400)
case("hosts in a list", get(host=b"Host: a, b"), 400)
case("host with a blank", get(host=b"Host: a b"), 400)
case("host with a bad port", get(host=b"Host: a:99999"), 400)
case("host with a broken address", get(host=b"Host: [::1"), 400)

# --- other fields ---

case("other expectation", get(b"PUT /upload HTTP/1.1", b"Expect: 200-maybe", b"Content-Length: 2")
     + b"hi", 417)
case("upgrade with a body", get(b"GET /ws-echo HTTP/1.1", b"Connection: Upgrade",
                                b"Upgrade: websocket", b"Content-Length: 5") + b"hello" + NEXT, 400)
case("two upgrades", get(b"GET / HTTP/1.1", b"Connection: Upgrade", b"Upgrade: websocket",
                         b"Upgrade: other"), 400)
case("connection option with a blank", get(b"GET / HTTP/1.1", b"Connection: keep alive"), 400)

# --- too much ---


def endless(first, piece):
    """Far more than any limit; the server has to stop it."""
    def pieces():
        yield first
        for _ in range(64 << 10):
            yield piece
    return pieces


case("target of 9 KiB", get(b"GET /" + b"a" * 9216 + b" HTTP/1.1"), 414)
case("target of 100 KiB", get(b"GET /" + b"a" * 102400 + b" HTTP/1.1"), 414)
case("endless target", endless(b"GET /", b"a" * 1024), 414)
case("endless method", endless(b"", b"A" * 1024), 414)
case("field of 40 KiB", get(b"GET / HTTP/1.1", b"X: " + b"y" * 40960), 431)
case("101 fields", get(b"GET / HTTP/1.1", *[b"X: y"] * 100), 431)
case("endless value", endless(b"GET / HTTP/1.1\r\nX: ", b"y" * 1024), 431)
case("endless fields", endless(b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 128), 431)
case("body too large for its place", post(b"Content-Length: 100000", body=b"x" * 100000,
                                          path=b"/echo-small"), 413)
HALF = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
case("chunks too large for their place",
     chunked(2 * HALF + b"1\r\nx\r\n0\r\n\r\n", path=b"/echo-small"), 413)

# --- too slow ---

case("nothing at all", b"", CLOSE)
case("head that stops", b"GET / HTTP/1.1\r\nHost: a\r\nX", 408)
case("head that never ends", b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: yyyyyyyyyyyyyyyy\r\n" * 1000,
     408, drip=True)
case("request line that stops", b"GET /", 408)
case("CR without its LF", b"GET / HTTP/1.1\r\nHost: a\r\n\r", 408)
case("body that stops", post(b"Content-Length: 10", body=b"hello"), 408)
case("chunk that stops", chunked(b"5\r\nhel"), 408)
case("chunk size that stops", chunked(b"5"), 408)
case("last chunk that stops", chunked(b"1\r\nx\r\n0\r\n"), 408)
case("expectation without the body", get(b"PUT /upload HTTP/1.1", b"Expect: 100-continue",
                                         b"Content-Length: 5"), [100, 408])

# --- gone too early ---

case("nothing, and half-closed", b"", CLOSE, then="shut")
case("half a head, and half-closed", b"GET / HTTP/1.1\r\nHo", CLOSE, then="shut")
case("half a body, and half-closed", post(b"Content-Length: 10", body=b"hello"), CLOSE, then="shut")
case("half a chunk, and half-closed", chunked(b"a\r\nhello"), CLOSE, then="shut")
case("no last chunk, and half-closed", chunked(b"5\r\nhello\r\n"), CLOSE, then="shut")
case("largest length, and half-closed", post(b"Content-Length: 9223372036854775807", body=b"hello"),
     CLOSE, then="shut")
case("reset in the head", b"GET / HTTP", None, then="reset")
case("reset in the body", post(b"Content-Length: 10", body=b"hello"), None, then="reset")
case("reset before the answer", get(b"GET /slow HTTP/1.1"), None, then="reset")
case("reset in the answer", get(b"GET /bytes/100000000 HTTP/1.1"), None, then="reset")

# --- WebSocket ---

WS_FIELDS = {b"Connection": b"Upgrade", b"Upgrade": b"websocket", b"Sec-WebSocket-Version": b"13",
             b"Sec-WebSocket-Key": b"dGhlIHNhbXBsZSBub25jZQ=="}


def websocket(frames=b"", line=b"GET /ws-echo HTTP/1.1", **change):
    fields = {**WS_FIELDS, **{name.replace("_", "-").encode(): v for name, v in change.items()}}
    return get(line, *[name + b": " + v for name, v in fields.items() if v is not None]) + frames


MASK = b"\0\0\0\0"  # leaves the payload readable

case("WebSocket key of 15 bytes", websocket(Sec_WebSocket_Key=b"AAAAAAAAAAAAAAAAAAAA"), 400,
     keep=True)
case("WebSocket key not in base64", websocket(Sec_WebSocket_Key=b"!" * 24), 400, keep=True)
case("WebSocket without a key", websocket(Sec_WebSocket_Key=None), 400, keep=True)
case("WebSocket version 8", websocket(Sec_WebSocket_Version=b"8"), 426, keep=True)
case("WebSocket in HTTP/1.0", websocket(line=b"GET /ws-echo HTTP/1.0"), 426)
case("frame without a mask", websocket(b"\x81\x02hi"), 101, code=1002)
case("frame with a reserved bit", websocket(b"\xc1\x82" + MASK + b"hi"), 101, code=1002)
case("frame with a reserved opcode", websocket(b"\x83\x82" + MASK + b"hi"), 101, code=1002)
case("continuation of nothing", websocket(b"\x80\x82" + MASK + b"hi"), 101, code=1002)
case("message within a message", websocket(b"\x01\x81" + MASK + b"a\x81\x81" + MASK + b"b"), 101,
     code=1002)
case("ping in fragments", websocket(b"\x09\x80" + MASK), 101, code=1002)
case("ping of 126 bytes", websocket(b"\x89\xfe\x00\x7e" + MASK + b"x" * 126), 101, code=1002)
case("length not in its shortest form", websocket(b"\x82\xfe\x00\x01" + MASK + b"x"), 101,
     code=1002)
case("frame of 2^63 bytes", websocket(b"\x82\xff\x80" + bytes(7) + MASK), 101, code=1002)
case("frame of a tebibyte", websocket(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + MASK), 101,
     code=1009)
case("text that is not UTF-8", websocket(b"\x81\x82" + MASK + b"\xc0\x80"), 101, code=1007)
case("text with half a character", websocket(b"\x81\x82" + MASK + b"\xe2\x82"), 101, code=1007)
case("close of one byte", websocket(b"\x88\x81" + MASK + b"x"), 101, code=1002)
case("close with code 1005", websocket(b"\x88\x82" + MASK + b"\x03\xed"), 101, code=1002)
