// Run by test_interop with the demo's URL and a directory: fetch, undici and ws.
import { createHash } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { Readable } from "node:stream";

const [url, root, modules] = process.argv.slice(2);
const require = createRequire(modules + "/");
const undici = require("undici");
const WebSocket = require("ws");
const big = readFileSync(root + "/big");

const ok = (name, condition) => console.log((condition ? "ok " : "not ok ") + name);
const sha = (data) => createHash("sha256").update(data).digest("hex");

const answers = await Promise.all([...Array(50).keys()].map((i) => fetch(`${url}/param/${i}`)));
const texts = await Promise.all(answers.map((a) => a.text()));
ok("fetch concurrent", texts.every((text, i) => text === String(i)));

let r = await fetch(url + "/echo", {
  method: "POST", duplex: "half", body: Readable.toWeb(createReadStream(root + "/big")),
});
ok("fetch streaming upload and download", sha(Buffer.from(await r.arrayBuffer())) === sha(big));

r = await fetch(url + "/events?n=500");
let text = "";
for await (const piece of r.body) text += Buffer.from(piece).toString();
ok("fetch event stream", text.split("\n\n").filter(Boolean).length === 500);

const form = new FormData();
form.append("a", new Blob([big]), "ü.bin");
form.append("b", "x");
r = await fetch(url + "/multipart", { method: "POST", body: form });
ok("fetch form data", (await r.text()) === `a ${big.length}\nb 1\n`);

r = await fetch(url + "/file/big", { headers: { Range: "bytes=10-19" } });
ok("fetch range", r.status === 206 && Buffer.from(await r.arrayBuffer()).equals(big.subarray(10, 20)));

const pool = new undici.Pool(url, { connections: 2, pipelining: 10 });
const piped = await Promise.all([...Array(200).keys()].map(async (i) =>
  (await pool.request({ path: `/param/${i}`, method: "GET" })).body.text()));
ok("undici pipelining", piped.every((t, i) => t === String(i)));
const up = await pool.request({
  path: "/upload", method: "PUT", body: createReadStream(root + "/big"),
});
ok("undici chunked upload", (await up.body.json()).bytes === big.length);
const { statusCode } = await pool.request({ path: "/", method: "HEAD" });
ok("undici HEAD", statusCode === 200);
await pool.close();

await new Promise((resolve) => {
  const req = http.request(url + "/upload", {
    method: "PUT", headers: { Expect: "100-continue", "Content-Length": big.length },
  }, (res) => { res.resume(); res.on("end", resolve); });
  let continued = false;
  req.on("continue", () => { continued = true; req.end(big); });
  req.on("close", () => ok("node:http expect continue", continued));
  req.flushHeaders();
});

await new Promise((resolve) => {
  const ws = new WebSocket(url.replace("http", "ws") + "/ws-echo", { perMessageDeflate: true });
  const got = [];
  ws.on("open", () => {
    ws.send("grüße");
    ws.send(big.subarray(0, 1 << 20));
    ws.send("frag", { fin: false });
    ws.send("ment", { fin: true });
    ws.ping("p");
  });
  ws.on("pong", (data) => ok("ws ping", data.toString() === "p"));
  ws.on("message", (data, binary) => {
    got.push(data);
    if (got.length === 3) {
      ok("ws text", got[0].toString() === "grüße");
      ok("ws binary", binary === false && got[1].equals(big.subarray(0, 1 << 20)));
      ok("ws fragments", got[2].toString() === "fragment");
      ws.close(1000, "done");
    }
  });
  ws.on("close", (code) => { ok("ws close handshake", code === 1000); resolve(); });
  ws.on("error", (e) => { ok("ws error " + e.message, false); resolve(); });
});
